/* tcactl: inspects and controls a tcad. See tcactl(1). */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/number.h"
#include "tools/tcactl/tcactl.h"

enum {
    LONG_JSON = 256,
    LONG_NO_COLOR,
    LONG_DOT,
    LONG_SVG,
    LONG_OPENMETRICS,
    LONG_CLUSTER,
    LONG_STRICT,
    LONG_PPN,
    LONG_RANKFILE,
    LONG_HOSTLIST,
    LONG_RANKS,
    LONG_SUBCLUSTER,
    LONG_ROOT,
    LONG_ALGORITHM,
    LONG_SEGMENT,
    LONG_STEPS
};

static const struct option long_options[] = {
    {"socket", required_argument, NULL, 's'},
    {"node", required_argument, NULL, 'N'},
    {"json", no_argument, NULL, LONG_JSON},
    {"no-color", no_argument, NULL, LONG_NO_COLOR},
    {"timeout", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"count", required_argument, NULL, 'c'},
    {"interval", required_argument, NULL, 'i'},
    {"dot", no_argument, NULL, LONG_DOT},
    {"svg", required_argument, NULL, LONG_SVG},
    {"openmetrics", no_argument, NULL, LONG_OPENMETRICS},
    {"cluster", required_argument, NULL, LONG_CLUSTER},
    {"strict", no_argument, NULL, LONG_STRICT},
    {"ppn", required_argument, NULL, LONG_PPN},
    {"rankfile", no_argument, NULL, LONG_RANKFILE},
    {"hostlist", no_argument, NULL, LONG_HOSTLIST},
    {"ranks", required_argument, NULL, LONG_RANKS},
    {"subcluster", required_argument, NULL, LONG_SUBCLUSTER},
    {"root", required_argument, NULL, LONG_ROOT},
    {"algorithm", required_argument, NULL, LONG_ALGORITHM},
    {"segment", required_argument, NULL, LONG_SEGMENT},
    {"steps", no_argument, NULL, LONG_STEPS},
    {0},
};

static const struct {
    unsigned bit;
    const char *name;
} option_names[] = {
    {OPTION_COUNT, "-c/-n"},
    {OPTION_INTERVAL, "-i"},
    {OPTION_DOT, "--dot"},
    {OPTION_SVG, "--svg"},
    {OPTION_OPENMETRICS, "--openmetrics"},
    {OPTION_CLUSTER, "--cluster"},
    {OPTION_STRICT, "--strict"},
    {OPTION_PPN, "--ppn"},
    {OPTION_RANKFILE, "--rankfile"},
    {OPTION_HOSTLIST, "--hostlist"},
    {OPTION_RANKS, "--ranks"},
    {OPTION_SUBCLUSTER, "--subcluster"},
    {OPTION_ROOT, "--root"},
    {OPTION_ALGORITHM, "--algorithm"},
    {OPTION_SEGMENT, "--segment"},
    {OPTION_STEPS, "--steps"},
};

static void help(void)
{
    puts("Usage: tcactl [OPTIONS] VERB [ARGUMENTS]\n\n"
         "Inspects and controls the tcad of a node.\n\nVerbs (can be abbreviated to a unique "
         "prefix):");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        char left[64];
        snprintf(left, sizeof(left), "%s %s", verb->name, verb->arguments);
        printf("  %-38s %s\n", left, verb->summary);
    }
    puts("\nOptions:\n"
         "  -s, --socket PATH      the daemon's socket (TCA_SOCKET)\n"
         "  -N, --node N           node N of tca-cluster (TCA_NODE)\n"
         "  -t, --timeout SECONDS  how long to wait for a reply (TCA_TIMEOUT)\n"
         "      --json             print the document as JSON\n"
         "      --no-color         print without colours (NO_COLOR)\n"
         "  -h, --help             print this text\n"
         "  -V, --version          print the version\n\n"
         "Exit codes: 0 success, 1 failure, 2 usage error, 3 tcad is not running,\n"
         "4 not permitted, 5 degraded, 6 no reply in time. See tcactl(1).");
}

static int usage(void)
{
    fputs("see tcactl --help\n", stderr);
    return EXIT_USAGE;
}

/* The verb with this name, or the only one with this prefix; NULL after an error message. */
static const struct verb *find_verb(const char *word)
{
    const struct verb *found = NULL;
    unsigned matches = 0;

    for (const struct verb *verb = verbs; verb->name; verb++) {
        if (!verb->run && !verb->render)
            continue; /* only a line of the help */
        if (strcmp(verb->name, word) == 0)
            return verb;
        if (*word && strncmp(verb->name, word, strlen(word)) == 0) {
            found = verb;
            matches++;
        }
    }
    if (matches == 1)
        return found;
    if (matches == 0) {
        fprintf(stderr, "tcactl: unknown verb \"%s\"\n", word);
        usage();
        return NULL;
    }
    fprintf(stderr, "tcactl: \"%s\" is ambiguous:", word);
    const char *between = " ";
    for (const struct verb *verb = verbs; verb->name; verb++) {
        if ((verb->run || verb->render) && strncmp(verb->name, word, strlen(word)) == 0) {
            fprintf(stderr, "%s%s", between, verb->name);
            between = " or ";
        }
    }
    fputc('\n', stderr);
    return NULL;
}

static bool parse_seconds(const char *option, const char *text, double least, double *ret_seconds)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= least && value <= 1e6)) {
        fprintf(stderr, "tcactl: %s %s: write seconds from %g to 1000000\n", option, text, least);
        return false;
    }
    *ret_seconds = value;
    return true;
}

/* Selects an emulated node through the environment, with precedence over TCA_SOCKET. */
static bool choose_node(const char *text)
{
    unsigned node;

    if (!number_parse("-N", text, 0, 65535, &node))
        return false;
    unsetenv("TCA_SOCKET");
    return setenv("TCA_NODE", text, 1) == 0;
}

static int check_options(const struct tcactl *tcactl, const struct verb *verb, int count)
{
    for (size_t i = 0; i < sizeof(option_names) / sizeof(*option_names); i++)
        if (tcactl->given & ~verb->options & option_names[i].bit) {
            fprintf(stderr, "tcactl: %s does not have the option %s\n", verb->name,
                    option_names[i].name);
            return usage();
        }
    if (count < verb->min_arguments || count > verb->max_arguments) {
        fprintf(stderr, "Usage: tcactl %s%s%s\n", verb->name, verb->arguments[0] ? " " : "",
                verb->arguments);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* An option of tcactl simulate: false after an error message, or if it is none. */
static bool parse_simulation(struct tcactl *tcactl, int option)
{
    switch (option) {
    case LONG_RANKS:
        tcactl->given |= OPTION_RANKS;
        return number_parse("--ranks", optarg, 1, TCA_COLL_SIMULATED_RANKS, &tcactl->ranks);
    case LONG_SUBCLUSTER:
        tcactl->given |= OPTION_SUBCLUSTER;
        return number_parse("--subcluster", optarg, 1, TCA_COLL_SIMULATED_RANKS,
                            &tcactl->per_subcluster);
    case LONG_ROOT:
        tcactl->given |= OPTION_ROOT;
        return number_parse("--root", optarg, 0, TCA_COLL_SIMULATED_RANKS - 1, &tcactl->root);
    case LONG_ALGORITHM:
        tcactl->given |= OPTION_ALGORITHM;
        tcactl->algorithm = optarg;
        return true;
    case LONG_SEGMENT:
        tcactl->given |= OPTION_SEGMENT;
        tcactl->segment = optarg;
        return true;
    case LONG_STEPS:
        tcactl->given |= OPTION_STEPS;
        return true;
    default:
        usage();
        return false;
    }
}

/* -1: continue; else the exit code. */
static int parse_options(struct tcactl *tcactl, bool *ret_no_color, int argc, char **argv)
{
    double seconds;

    for (int option;
         (option = getopt_long(argc, argv, "s:N:t:hVc:n:i:", long_options, NULL)) != -1;) {
        switch (option) {
        case 's':
            tcactl->socket = optarg;
            break;
        case 'N':
            if (!choose_node(optarg))
                return EXIT_USAGE;
            tcactl->node_chosen = true;
            break;
        case 't':
            if (!parse_seconds("-t", optarg, 0.001, &seconds))
                return EXIT_USAGE;
            tcactl->timeout_ns = (int64_t)(1e9 * seconds);
            break;
        case 'c':
        case 'n':
            if (!number_parse(option == 'c' ? "-c" : "-n", optarg, 1, 1000000, &tcactl->count))
                return EXIT_USAGE;
            tcactl->given |= OPTION_COUNT;
            break;
        case 'i':
            if (!parse_seconds("-i", optarg, 0.1, &tcactl->interval_s))
                return EXIT_USAGE;
            tcactl->given |= OPTION_INTERVAL;
            break;
        case LONG_JSON:
            tcactl->json = true;
            break;
        case LONG_NO_COLOR:
            *ret_no_color = true;
            break;
        case LONG_DOT:
            tcactl->given |= OPTION_DOT;
            break;
        case LONG_SVG:
            tcactl->svg = optarg;
            tcactl->given |= OPTION_SVG;
            break;
        case LONG_OPENMETRICS:
            tcactl->given |= OPTION_OPENMETRICS;
            break;
        case LONG_CLUSTER:
            tcactl->cluster_file = optarg;
            tcactl->given |= OPTION_CLUSTER;
            break;
        case LONG_STRICT:
            tcactl->given |= OPTION_STRICT;
            break;
        case LONG_PPN:
            if (!number_parse("--ppn", optarg, 1, 4096, &tcactl->per_node))
                return EXIT_USAGE;
            tcactl->given |= OPTION_PPN;
            break;
        case LONG_RANKFILE:
            tcactl->given |= OPTION_RANKFILE;
            break;
        case LONG_HOSTLIST:
            tcactl->given |= OPTION_HOSTLIST;
            break;
        case 'h':
            help();
            return EXIT_OK;
        case 'V':
            printf("tcactl %s (libtca %s)\n", TCAD_VERSION, tca_version());
            return EXIT_OK;
        default:
            if (!parse_simulation(tcactl, option))
                return EXIT_USAGE;
        }
    }
    if (tcactl->node_chosen && tcactl->socket) {
        fputs("tcactl: --socket and --node exclude each other\n", stderr);
        return EXIT_USAGE;
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct tcactl tcactl = {.timeout_ns = TCA_DEFAULT, .verb = "tcactl"};
    bool no_color = false;

    setlocale(LC_CTYPE, "");
    int code = parse_options(&tcactl, &no_color, argc, argv);
    if (code >= 0)
        return code;
    if (optind == argc) {
        fputs("tcactl: a verb is missing, such as \"tcactl status\"\n", stderr);
        return usage();
    }
    const struct verb *verb = find_verb(argv[optind++]);
    if (!verb)
        return EXIT_USAGE;
    code = check_options(&tcactl, verb, argc - optind);
    if (code != EXIT_OK)
        return code;

    tcactl.verb = verb->name;
    screen_init(&tcactl.screen, stdout, no_color);
    if (verb->run)
        code = verb->run(&tcactl, argc - optind, argv + optind);
    else
        code = tcactl_show(&tcactl, verb->name, NULL, verb->render, NULL);
    tcactl_disconnect(&tcactl);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tcactl: cannot write the output: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return code;
}
