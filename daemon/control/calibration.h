/* The kept calibration of this node. */
#pragma once

struct tcad;

/* Reads what was kept; measures in the background when there is nothing (rails.calibration = auto).
 */
void calibration_start(struct tcad *tcad);
