#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster.h"

static struct cluster *good(const char *text)
{
    struct config_errors errors = {0};
    struct cluster *cluster = NULL;
    int r = cluster_parse("c", text, strlen(text), &cluster, &errors);

    if (r < 0)
        config_errors_write(&errors, stderr);
    cr_assert_eq(r, 0, "%s", text);
    cr_assert_eq(errors.count, 0);
    config_errors_deinit(&errors);
    return cluster;
}

static void expect_node(const struct cluster *cluster, size_t i, uint32_t id, const char *name,
                        const char *address, unsigned port, const char *subcluster)
{
    const struct cluster_node *node = &cluster->nodes[i];

    cr_expect_eq(node->id, id, "node %zu has id %u", i, node->id);
    cr_expect_str_eq(node->name, name);
    cr_expect_str_eq(node->address, address);
    cr_expect_eq(node->port, port);
    cr_expect_str_eq(node->subcluster, subcluster);
    cr_expect_eq(cluster_by_id(cluster, id), node);
    cr_expect_eq(cluster_by_name(cluster, name), node);
}

Test(cluster, every_form)
{
    struct cluster *cluster = good("cluster = hapacs   # name\n"
                                   "b9 id=9\n"
                                   "node[1-4] id=1-4 address=10.0.0.[1-4]:7081 subcluster=a\n"
                                   "node7 id=7 address=[2001:db8::7]:7090 subcluster=b\n"
                                   "six[1-2] id=[20,22] address=[2001:db8::[1-2]]:7080\n"
                                   "x,y id=5,6 address=10.1.0.1,[::1]:9\n");
    char *names = cluster_fold(cluster);

    cr_expect_str_eq(cluster->name, "hapacs");
    cr_assert_eq(cluster->count, 10);
    expect_node(cluster, 0, 1, "node1", "10.0.0.1", 7081, "a");
    expect_node(cluster, 3, 4, "node4", "10.0.0.4", 7081, "a");
    expect_node(cluster, 4, 5, "x", "10.1.0.1", 7080, "main");
    expect_node(cluster, 5, 6, "y", "::1", 9, "main");
    expect_node(cluster, 6, 7, "node7", "2001:db8::7", 7090, "b");
    expect_node(cluster, 7, 9, "b9", "b9", 7080, "main");
    expect_node(cluster, 8, 20, "six1", "2001:db8::1", 7080, "main");
    expect_node(cluster, 9, 22, "six2", "2001:db8::2", 7080, "main");
    cr_expect_eq(cluster->nodes[3].subcluster_id, 1);
    cr_expect_eq(cluster->nodes[4].subcluster_id, 5);
    cr_expect_eq(cluster->nodes[6].subcluster_id, 7);
    cr_expect_eq(cluster->nodes[9].subcluster_id, 5);
    cr_expect_eq(cluster->nodes[6].line, 4);
    cr_expect_null(cluster_by_id(cluster, 0));
    cr_expect_null(cluster_by_id(cluster, 8));
    cr_expect_null(cluster_by_id(cluster, 23));
    cr_expect_null(cluster_by_name(cluster, "node5"));
    cr_expect_str_eq(names, "node[1-4],x,y,node7,b9,six[1-2]");
    free(names);
    cluster_free(cluster);
}

Test(cluster, emulated_nodes_differ_in_their_ports)
{
    struct cluster *cluster = good("emu[0-3] address=127.0.0.1:[7001-7004]\ncluster id=9\n");

    cr_expect_str_eq(cluster->name, "tcad");
    cr_assert_eq(cluster->count, 5);
    expect_node(cluster, 0, 0, "emu0", "127.0.0.1", 7001, "main");
    expect_node(cluster, 3, 3, "emu3", "127.0.0.1", 7004, "main");
    expect_node(cluster, 4, 9, "cluster", "cluster", 7080, "main");
    cluster_free(cluster);
}

Test(cluster, as_large_as_can_be)
{
    struct cluster *cluster = good("n[0-131071]\n");

    cr_expect_eq(cluster->count, CLUSTER_NODES_MAX);
    expect_node(cluster, 131071, 131071, "n131071", "n131071", 7080, "main");
    cluster_free(cluster);
}

static const struct {
    const char *text, *errors;
} bad[] = {
    {"", "c: has no nodes; write at least one line like: node[1-4] address=10.0.0.[1-4]\n"},
    {"# nothing\ncluster = a\n",
     "c: has no nodes; write at least one line like: node[1-4] address=10.0.0.[1-4]\n"},
    {"cluster = a b\nn\n", "c:1: cluster = a b: is not a name; write at most 63 letters, digits, - "
                           "_ . and begin with none of - .\n"},
    {"cluster = a\ncluster = a\nn\n",
     "c:2: the cluster's name was already set in line 1; remove one of them\n"},
    {"n[1-2\n", "c:1: nodes \"n[1-2\", character 2: the bracket is not closed\n"},
    {"n/1\n", "c:1: \"n/1\" is not a node name; write at most 63 letters, digits, - _ . and begin "
              "with none of - .\n"},
    {"n1 id\n", "c:1: \"id\" is not a property; write id=, address= or subcluster=\n"},
    {"n1 adress=n1\n", "c:1: nodes have no property \"adress\"; did you mean \"address\"?\n"},
    {"n1 rack=7\n", "c:1: nodes have no property \"rack\"; write id=, address= or subcluster=\n"},
    {"n1 id=1 id=2\n", "c:1: id= occurs twice in the line; remove one of them\n"},
    {"n1 subcluster=a subcluster=a\n",
     "c:1: subcluster= occurs twice in the line; remove one of them\n"},
    {"n1 id=\n", "c:1: id \"[]\", character 2: a number is missing; ranges are written [1-3,7]\n"},
    {"n1 id=131072\n", "c:1: id=131072: is not a number from 0 to 131071\n"},
    {"n1 id=x[1]\n", "c:1: id=x1: is not a number from 0 to 131071\n"},
    {"n[1-3] id=1-2\n", "c:1: the line has 3 nodes but 2 ids; write the same number of both\n"},
    {"n[1-2] address=10.0.0.1\n",
     "c:1: the line has 2 nodes but 1 addresses; write the same number of both\n"},
    {"n1 address=\n", "c:1: address \"\", character 1: a name is missing\n"},
    {"n1 address=10.0.0.1:0\n",
     "c:1: address=10.0.0.1:0: the port is not a number from 1 to 65535\n"},
    {"n1 address=2001:db8::7\n",
     "c:1: address=2001:db8::7: write an IPv6 address in brackets: [2001:db8::7]:7080\n"},
    {"n1 address=[2001:db8::7\n",
     "c:1: address \"[2001:db8::7\", character 1: the bracket is not closed\n"},
    {"n1 address=<::1>\n", "c:1: address \"<::1>\" contains < or >; write HOST:PORT\n"},
    {"n1 subcluster=\n", "c:1: subcluster=: is not a name; write at most 63 letters, digits, - _ . "
                         "and begin with none of - .\n"},
    {"n1 id=3\n\nn2 id=3\n", "c:3: id 3 was already used in line 1; every node needs its own\n"},
    {"n1\nn2 id=0\n", "c:2: id 0 was already used in line 1; every node needs its own\n"},
    {"n1\nn[1-2] address=a,b\n",
     "c:2: name n1 was already used in line 1; every node needs its own\n"},
    {"n1 address=a:1\nn2 address=a:1\n",
     "c:2: address a:1 was already used in line 1; every node needs its own\n"},
    {"n[1-2] address=[::1],[::1]\n",
     "c:1: address [::1]:7080 was already used in line 1; every node needs its own\n"},
    {"n[0-131071]\nm\n", "c:2: the file has more than 131072 nodes; remove some\n"},
    {"n[1\nn2 foo\nn3 id=3 id=4 address=:\nn4\n",
     "c:1: nodes \"n[1\", character 2: the bracket is not closed\n"
     "c:2: \"foo\" is not a property; write id=, address= or subcluster=\n"
     "c:3: id= occurs twice in the line; remove one of them\n"},
};

Test(cluster, bad)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct config_errors errors = {0};
        struct cluster *cluster = NULL;
        char *text = NULL;
        size_t bytes;
        FILE *to = open_memstream(&text, &bytes);

        cr_expect_eq(cluster_parse("c", bad[i].text, strlen(bad[i].text), &cluster, &errors),
                     -EINVAL, "%s", bad[i].text);
        cr_expect_null(cluster, "written although it failed");
        config_errors_write(&errors, to);
        fclose(to);
        cr_expect_str_eq(text, bad[i].errors);
        free(text);
        config_errors_deinit(&errors);
    }
}

Test(cluster, single)
{
    struct cluster *cluster = NULL;

    cr_assert_eq(cluster_single(7, "me", "", 0, &cluster), 0);
    cr_expect_eq(cluster->count, 1);
    expect_node(cluster, 0, 7, "me", "", 0, "main");
    cluster_free(cluster);
    cr_expect_null(cluster_free(NULL));
}

Test(cluster, differences)
{
    struct cluster *before = good("a id=1\nb id=2\nc id=3\nd id=4\ne id=5\n");
    struct cluster *after =
        good("a id=1\nb id=2 address=b:1\nc id=3 subcluster=x\nz id=4\nf id=6\n");
    static const struct {
        enum cluster_change_kind kind;
        const char *before, *after;
    } expected[] = {{CLUSTER_MOVED, "b", "b"},    {CLUSTER_MOVED, "c", "c"},
                    {CLUSTER_REMOVED, "d", NULL}, {CLUSTER_ADDED, NULL, "z"},
                    {CLUSTER_REMOVED, "e", NULL}, {CLUSTER_ADDED, NULL, "f"}};
    struct cluster_change *changes = NULL;
    size_t count = 0;

    cr_assert_eq(cluster_diff(before, after, &changes, &count), 0);
    cr_assert_eq(count, sizeof(expected) / sizeof(*expected));
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(changes[i].kind, expected[i].kind, "change %zu", i);
        cr_expect_str_eq(changes[i].before ? changes[i].before->name : "-",
                         expected[i].before ? expected[i].before : "-");
        cr_expect_str_eq(changes[i].after ? changes[i].after->name : "-",
                         expected[i].after ? expected[i].after : "-");
    }
    free(changes);
    cr_assert_eq(cluster_diff(before, before, &changes, &count), 0);
    cr_expect_eq(count, 0);
    cr_expect_null(changes);
    cluster_free(before);
    cluster_free(after);
}
