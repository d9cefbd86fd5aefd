/* Suggestions for misspelt words. */
#pragma once

/* The candidate most similar to a word, if any is similar enough. */
struct config_guess {
    const char *word;
    const char *best; /* NULL: none */
    unsigned distance;
};
void config_guess_init(struct config_guess *guess, const char *word);
void config_guess_try(struct config_guess *guess, const char *candidate);
