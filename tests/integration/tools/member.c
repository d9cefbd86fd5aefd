/* A member of the group in the environment: prints which one, once all have joined. */
#include <stdio.h>
#include <tca.h>

int main(void)
{
    struct tca *session;
    int r = tca_open(NULL, &session);

    if (r < 0)
        return fprintf(stderr, "member: %s: %s\n", tca_strerror(r), tca_error_text()), 1;
    printf("member %u of %u on node %u\n", tca_rank(session), tca_size(session), tca_node(session));
    fflush(stdout);
    r = tca_barrier(session, TCA_DEFAULT);
    tca_close(session);
    return r < 0;
}
