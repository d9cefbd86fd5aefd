#include "tools/tca-cluster/rails.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/say.h"

/* TCA_RAIL of the ranks: from -e or inherited. */
static const char *demanded_rail(const struct run_options *options)
{
    static const char name[] = "TCA_RAIL=";
    const char *rail = getenv("TCA_RAIL");

    for (char *const *e = options->variables; e && *e; e++)
        if (strncmp(*e, name, sizeof(name) - 1) == 0)
            rail = *e + sizeof(name) - 1;
    return rail && *rail && strcmp(rail, "any") != 0 ? rail : NULL;
}

static const char *why_no_boards(const struct cluster *cluster, const struct run_options *options)
{
    if (options->up.boards == BOARDS_NO)
        return "--no-boards";
    if (cluster->nodes > BOARDS_MAX)
        return "boards support at most 16 nodes";
    return "the cluster was brought up without boards";
}

void rails_say(const struct cluster *cluster, const struct run_options *options)
{
    const char *rail = demanded_rail(options);

    if (cluster->nodes == 1 && !rail)
        say("rail shm: all ranks are on one node");
    else if (rail)
        say("rail %s between nodes: requested by TCA_RAIL", rail);
    else if (!cluster->boards)
        say("rail tcp between nodes: %s", why_no_boards(cluster, options));
    else
        say("rail peach2 between nodes%s for programs of the TCA API, which prefer boards (%s); "
            "others use the cheapest rail as measured, or boards with TCA_RAIL=peach2",
            cluster->subclusters > 1 ? " of one sub-cluster" : "", boards_shape(cluster).text);
}
