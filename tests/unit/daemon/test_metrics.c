#include "nodes.h"

#include <jansson.h>

#include "daemon/control/metrics.h"

TestSuite(metrics, .init = test_setup, .fini = test_teardown, .timeout = 60);

static void renders(const char *document, const char *expected)
{
    json_error_t error;
    json_t *json = json_loads(document, 0, &error);
    cr_assert(json, "%s", error.text);
    char *text = metrics_render(json);
    json_decref(json);
    cr_assert_str_eq(text, expected);
    free(text);
}

Test(metrics, nothing_is_still_a_text)
{
    renders("{}", "# EOF\n");
    renders("{\"families\": []}", "# EOF\n");
    renders("{\"families\": [{\"name\": \"x\", \"type\": \"gauge\", \"samples\": []}]}", "# EOF\n");
}

Test(metrics, counters_and_units_get_their_suffixes)
{
    renders(
        "{\"families\": [{\"name\": \"put\", \"type\": \"counter\", \"unit\": \"bytes\", \"help\": "
        "\"All of it.\","
        " \"samples\": [{\"labels\": {\"rail\": \"shm\", \"seat\": 2}, \"value\": 7}]},"
        "{\"name\": \"rtt_seconds\", \"type\": \"gauge\", \"unit\": \"seconds\", \"help\": \"\","
        " \"samples\": [{\"labels\": {}, \"value\": 0.1}, {\"value\": \"no number\"}]},"
        "{\"name\": \"starts_total\", \"type\": \"counter\", \"unit\": \"\", \"help\": \"h\","
        " \"samples\": [{\"value\": 9007199254740993}]}]}",
        "# TYPE put_bytes counter\n# UNIT put_bytes bytes\n# HELP put_bytes All of it.\n"
        "put_bytes_total{rail=\"shm\",seat=\"2\"} 7\n"
        "# TYPE rtt_seconds gauge\n# UNIT rtt_seconds seconds\n# HELP rtt_seconds \nrtt_seconds "
        "0.1\n"
        "# TYPE starts counter\n# HELP starts h\nstarts_total 9007199254740993\n# EOF\n");
}

Test(metrics, what_people_write_is_escaped)
{
    renders("{\"families\": [{\"name\": \"a-b\", \"type\": \"gauge\", \"unit\": \"\", \"help\": "
            "\"back\\\\slash \\\"q\\\"\\nnext\","
            " \"samples\": [{\"labels\": {\"name\": \"x\\\"} 1\\n# EOF\\\\\"}, \"value\": 1}]}]}",
            "# TYPE a_b gauge\n# HELP a_b back\\\\slash \\\"q\\\"\\nnext\na_b{name=\"x\\\"} 1\\n# "
            "EOF\\\\\"} 1\n# EOF\n");
}

/* ---- over HTTP ---- */

static int http_fd;
static char http_answer[8192];
static size_t http_bytes;

static bool http_done(void)
{
    ssize_t n;
    while ((n = recv(http_fd, http_answer + http_bytes, sizeof(http_answer) - 1 - http_bytes,
                     MSG_DONTWAIT)) > 0)
        http_bytes += (size_t)n;
    http_answer[http_bytes] = '\0';
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static int http_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static const char *http_get(int port, const char *request)
{
    http_fd = http_connect(port);
    http_bytes = 0;
    cr_assert_eq(send(http_fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    run_until(http_done);
    close(http_fd);
    return http_answer;
}

static char *answer(void *context, const char *path, const char **ret_type)
{
    *ret_type = "text/x";
    return strcmp(path, "/yes") == 0 ? strdup("body\n") : NULL;
}

Test(metrics, http_answers_a_get_and_nothing_else)
{
    struct http *http;
    cr_assert_eq(http_new(test.loop, "no address", 0, answer, NULL, &http), -EINVAL);
    cr_assert_eq(http_new(test.loop, "127.0.0.1", 0, answer, NULL, &http), 0);
    int port = http_port(http);
    contains(http_get(port, "GET /yes?a=b HTTP/1.1\r\nHost: x\r\n\r\n"),
             "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n");
    contains(http_answer, "Content-Length: 5\r\n");
    contains(http_answer, "\r\n\r\nbody\n");
    contains(http_get(port, "GET /no HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ");
    contains(http_get(port, "POST /yes HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ");
    contains(http_get(port, "GET yes HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 ");
    contains(http_get(port, "GET /yes\r\n\r\n"), "HTTP/1.1 400 ");
    static char big[9000];
    memset(big, 'a', sizeof(big) - 1);
    memcpy(big, "GET /", 5);
    contains(http_get(port, big), "HTTP/1.1 431 ");
    memcpy(big + 1000, " HTTP/1.1\r\n\r\n", 14);
    contains(http_get(port, big), "HTTP/1.1 414 ");
    http_free(http);
}

Test(metrics, who_dawdles_makes_room)
{
    struct http *http;
    int fds[40];
    cr_assert_eq(http_new(test.loop, "127.0.0.1", 0, answer, NULL, &http), 0);
    for (unsigned i = 0; i < 40; i++)
        fds[i] = http_connect(http_port(http));
    run_for_ms(50);
    contains(http_get(http_port(http), "GET /yes HTTP/1.1\r\n\r\n"), "200 OK");
    for (unsigned i = 0; i < 40; i++)
        close(fds[i]);
    http_free(http);
}
