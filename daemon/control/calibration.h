/* The stored calibration of this node. */
#pragma once

struct tcad;

/* Reads the stored calibration. If there is none, measures in the background
 * (rails.calibration = auto). */
void calibration_start(struct tcad *tcad);
