/* Two boards for the conformance suite, started when the first is asked for. They end with the
 * test. */
#include <stdlib.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

static struct rig rig;

static void end(void)
{
    rig_end_boards(&rig);
}

const char *side_board(void)
{
    static unsigned opened;
    if (opened == 0) {
        rig_boards(&rig, 2, 1);
        atexit(end);
    }
    return rig.boards[opened++ % 2].path;
}
