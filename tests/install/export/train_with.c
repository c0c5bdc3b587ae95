/* Trains an exported library (gpt) with one of its instruction sets, or the one that it chooses: prints its name, then the losses
 * of 20 steps. usage: train_with FOLDER [INSTRUCTIONS]. Exit status: minus the error that gpt_create returns. */
#include "gpt.h"

#include <stdio.h>

enum { steps = 20 };
static int32_t tokens[GPT_TOKENS], targets[GPT_TARGETS];

static const char *in(const char *folder, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

int main(int argc, char **argv) {
    const gpt_options options = {.instructions = argc > 2 ? argv[2] : NULL};
    gpt *m;
    const int code = argc > 1 ? gpt_create(&options, &m) : GPT_EARGUMENT;
    if (code) return fprintf(stderr, "train_with: %s\n", gpt_meaning(code)), -code;
    FILE *f = fopen(in(argv[1], "example_batches.bin"), "rb");
    if (!f) return 20;
    if (gpt_load(m, in(argv[1], "gpt_weights.safetensors"))) return fprintf(stderr, "%s\n", gpt_message(m)), 21;
    printf("%s\n", gpt_instructions(m));
    for (int i = 0; i < steps; i++) {
        if (fread(tokens, sizeof tokens, 1, f) != 1 || fread(targets, sizeof targets, 1, f) != 1) return 23;
        double loss;
        gpt_set(m, "lr", 1e-3);
        if (gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss)) return fprintf(stderr, "%s\n", gpt_message(m)), 22;
        printf("step %d  loss %.9g\n", i + 1, loss);
    }
    fclose(f);
    gpt_destroy(m);
    return 0;
}
