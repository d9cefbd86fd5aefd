/* tcactl: inspects and controls a tcad. See tcactl(1). */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/guess.h"
#include "tools/common/number.h"
#include "tools/tcactl/tcactl.h"

/* Values of long options: this and a bit of enum option_bit. */
enum { LONG = 1 << 24, LONG_JSON = LONG - 1, LONG_NO_COLOR = LONG - 2 };

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
    {"dot", no_argument, NULL, LONG + OPTION_DOT},
    {"svg", required_argument, NULL, LONG + OPTION_SVG},
    {"openmetrics", no_argument, NULL, LONG + OPTION_OPENMETRICS},
    {"cluster", required_argument, NULL, LONG + OPTION_CLUSTER},
    {"strict", no_argument, NULL, LONG + OPTION_STRICT},
    {"ppn", required_argument, NULL, LONG + OPTION_PPN},
    {"rankfile", no_argument, NULL, LONG + OPTION_RANKFILE},
    {"hostlist", no_argument, NULL, LONG + OPTION_HOSTLIST},
    {"ranks", required_argument, NULL, LONG + OPTION_RANKS},
    {"subcluster", required_argument, NULL, LONG + OPTION_SUBCLUSTER},
    {"root", required_argument, NULL, LONG + OPTION_ROOT},
    {"algorithm", required_argument, NULL, LONG + OPTION_ALGORITHM},
    {"segment", required_argument, NULL, LONG + OPTION_SEGMENT},
    {"steps", no_argument, NULL, LONG + OPTION_STEPS},
    {"all", no_argument, NULL, LONG + OPTION_ALL},
    {"state", required_argument, NULL, LONG + OPTION_STATE},
    {"job", required_argument, NULL, LONG + OPTION_JOB},
    {"alone", no_argument, NULL, LONG + OPTION_ALONE},
    {"wait", required_argument, NULL, LONG + OPTION_WAIT},
    {0},
};

enum { HELP_COLUMNS = 30 }; /* of a verb and its arguments; longer ones have a line of their own */

static int help(void)
{
    puts("Usage: tcactl [OPTIONS] VERB [ARGUMENTS]\n\n"
         "Inspects and controls the tcad of a node.\n\nVerbs (can be abbreviated to a unique "
         "prefix; tcactl help VERB):");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        const int length = printf("  %s %s", verb->name, verb->arguments) - 2;
        if (length > HELP_COLUMNS)
            putchar('\n');
        printf("%*s %s\n", length > HELP_COLUMNS ? 2 + HELP_COLUMNS : HELP_COLUMNS - length, "",
               verb->summary);
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
    return EXIT_OK;
}

/* The forms of a verb, and the options that only some verbs have. */
static int help_on(const struct verb *of)
{
    const size_t length = strlen(of->name);
    const char *before = "\nOptions:";

    printf("Usage: tcactl [OPTIONS] %s %s\n", of->name, of->arguments);
    for (const struct verb *verb = verbs; verb->name; verb++)
        if (strncmp(verb->name, of->name, length) == 0 && verb->name[length] == ' ')
            printf("       tcactl [OPTIONS] %s %s\n", verb->name, verb->arguments);
    printf("\n%c%s.\n", toupper((unsigned char)of->summary[0]), of->summary + 1);
    for (const struct option *option = long_options; option->name; option++) {
        const unsigned bit = option->val >= LONG  ? (unsigned)(option->val - LONG)
                             : option->val == 'c' ? OPTION_COUNT
                             : option->val == 'i' ? OPTION_INTERVAL
                                                  : 0;
        if (!(of->options & bit))
            continue;
        printf("%s --%s", before, option->name);
        before = ",";
    }
    puts("\nSee tcactl(1), and tcactl --help for the options of all verbs.");
    return EXIT_OK;
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
        struct config_guess guess;
        config_guess_init(&guess, word);
        for (const struct verb *verb = verbs; verb->name; verb++)
            if (verb->run || verb->render)
                config_guess_try(&guess, verb->name);
        fprintf(stderr, "tcactl: unknown verb \"%s\"%s%s%s\n", word,
                guess.best ? ": did you mean " : "", guess.best ? guess.best : "",
                guess.best ? "?" : "");
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
    const unsigned wrong = tcactl->given & ~verb->options;

    if (wrong) {
        const struct option *option = long_options;
        while (option->name && (option->val < LONG || !(wrong & (unsigned)option->val)))
            option++;
        fprintf(stderr, "tcactl: %s does not have the option %s%s\n", verb->name,
                option->name ? "--" : "",
                option->name           ? option->name
                : wrong & OPTION_COUNT ? "-c/-n"
                                       : "-i");
        return usage();
    }
    if (count < verb->min_arguments || count > verb->max_arguments) {
        fprintf(stderr, "Usage: tcactl %s%s%s\n", verb->name, verb->arguments[0] ? " " : "",
                verb->arguments);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* An option of some verbs: false after an error message. */
static bool take(struct tcactl *tcactl, unsigned bit)
{
    tcactl->given |= bit;
    switch (bit) {
    case OPTION_SVG:
        tcactl->svg = optarg;
        return true;
    case OPTION_CLUSTER:
        tcactl->cluster_file = optarg;
        return true;
    case OPTION_ALGORITHM:
        tcactl->algorithm = optarg;
        return true;
    case OPTION_SEGMENT:
        tcactl->segment = optarg;
        return true;
    case OPTION_STATE:
        tcactl->state = optarg;
        return true;
    case OPTION_JOB:
        tcactl->job = optarg;
        return true;
    case OPTION_WAIT:
        return parse_seconds("--wait", optarg, 0, &tcactl->wait_s);
    case OPTION_PPN:
        return number_parse("--ppn", optarg, 1, 4096, &tcactl->per_node);
    case OPTION_RANKS:
        return number_parse("--ranks", optarg, 1, TCA_COLL_PREDICTED_RANKS, &tcactl->ranks);
    case OPTION_SUBCLUSTER:
        return number_parse("--subcluster", optarg, 1, TCA_COLL_PREDICTED_RANKS,
                            &tcactl->per_subcluster);
    case OPTION_ROOT:
        return number_parse("--root", optarg, 0, TCA_COLL_PREDICTED_RANKS - 1, &tcactl->root);
    default:
        return true;
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
            if (!number_parse(option == 'c' ? "-c" : "-n", optarg, 1,
                              option == 'c' ? PINGS_MAX : 1000000, &tcactl->count))
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
        case 'h':
            tcactl->helps = true;
            break;
        case 'V':
            printf("tcactl %s (libtca %s)\n", TCAD_VERSION, tca_version());
            return EXIT_OK;
        default:
            if (option < LONG)
                return usage();
            if (!take(tcactl, (unsigned)(option - LONG)))
                return EXIT_USAGE;
        }
    }
    if (!tcactl->helps && tcactl->node_chosen && tcactl->socket) {
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
    while (optind < argc &&
           strcmp(argv[optind], "help") == 0) { /* tcactl help plan: tcactl plan --help */
        tcactl.helps = true;
        optind++;
    }
    if (optind == argc && tcactl.helps)
        return help();
    if (optind == argc) {
        fputs("tcactl: a verb is missing, such as \"tcactl status\"\n", stderr);
        return usage();
    }
    const struct verb *verb = find_verb(argv[optind++]);
    if (!verb)
        return EXIT_USAGE;
    if (tcactl.helps)
        return help_on(verb);
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
