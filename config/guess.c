#include "config/guess.h"

#include <string.h>

/* Edits (insert, delete, replace, swap neighbours) from a to b; words longer than any key are far
 * from all. */
static unsigned distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    size_t n = strlen(a), m = strlen(b);
    unsigned cost[MAX + 1][MAX + 1];

    if (n > MAX || m > MAX)
        return MAX;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (cost[i - 1][j] + 1 < best)
                best = cost[i - 1][j] + 1;
            if (cost[i][j - 1] + 1 < best)
                best = cost[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < best)
                best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    return cost[n][m];
}

void config_guess_init(struct config_guess *guess, const char *word)
{
    *guess = (struct config_guess){.word = word, .distance = 1 + (unsigned)(strlen(word) / 3)};
}

void config_guess_try(struct config_guess *guess, const char *candidate)
{
    unsigned d = distance(guess->word, candidate);

    if (d < guess->distance || (!guess->best && d == guess->distance && d < strlen(candidate))) {
        guess->best = candidate;
        guess->distance = d;
    }
}
