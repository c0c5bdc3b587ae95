/* What an exported library (gpt) promises: two instances at once, the caller's memory, parallel loops by a callback, no allocation
 * in a step, an error for whatever is passed to it. usage: library_checks WEIGHTS [starved]. Linked with --wrap of the allocator's functions. */
#include "gpt.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
#define CHECK(what) \
    do { \
        if (!(what)) failures++, printf("FAILED: line %d: %s\n", __LINE__, #what); \
    } while (0)

/* --- The allocator ends the program where it is called within a step ----------------------------------- */

static _Thread_local bool in_step = false;
#ifdef WRAPPED
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void __real_free(void *p);
static void outside(void) {
    if (in_step) printf("FAILED: memory is asked for, or given back, within a step\n"), abort();
}
void *__wrap_malloc(size_t n) { return outside(), __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return outside(), __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return outside(), __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { return outside(), __real_aligned_alloc(a, n); }
void __wrap_free(void *p) { outside(), __real_free(p); }
#endif

enum { one_input = GPT_TOKENS / GPT_BATCH, one_target = GPT_TARGETS / GPT_BATCH }; /* of an example */
static int32_t tokens[GPT_TOKENS], targets[GPT_TARGETS];
static float output[GPT_OUTPUTS];
static unsigned char weights[1 << 24];
static size_t weight_bytes;

static double losses_of(gpt *m, int steps) {
    double loss = 0, sum = 0;
    in_step = true;
    for (int i = 0; i < steps; i++) {
        CHECK(gpt_set(m, "lr", 1e-3) == GPT_OK);
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_OK);
        sum = sum * 3 + loss;
    }
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_OK);
    CHECK(gpt_predict(m, tokens, GPT_TOKENS, output, GPT_OUTPUTS) == GPT_OK);
    in_step = false;
    for (int i = 0; i < GPT_OUTPUTS; i++) CHECK(isfinite(output[i]));
    return sum * 3 + loss;
}

/* --- Two instances at once, loops on threads ----------------------------------------------------------- */

static gpt *made(const gpt_options *options) {
    gpt *m = NULL;
    CHECK(gpt_create(options, &m) == GPT_OK);
    CHECK(gpt_load_bytes(m, weights, weight_bytes) == GPT_OK);
    return m;
}

static void *train_apart(void *sum) {
    gpt *m = made(NULL);
    *(double *)sum = losses_of(m, 5);
    gpt_destroy(m);
    return NULL;
}

typedef struct {
    gpt_task task;
    void *arg;
    int count, thread;
} share;
static int loops = 0;
static void *run_share(void *p) {
    const share *s = p;
    for (int i = s->thread; i < s->count; i += 3) s->task(s->arg, i, s->thread);
    return NULL;
}
static void three_threads(void *user, gpt_task task, void *arg, int count) {
    const bool outer = in_step;
    in_step = false; /* threads take memory of their own */
    pthread_t threads[3];
    share shares[3];
    for (int t = 0; t < 3; t++) {
        shares[t] = (share){task, arg, count, t};
        if (pthread_create(&threads[t], NULL, run_share, &shares[t])) abort();
    }
    for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);
    in_step = outer;
    ++*(int *)user;
}

static void check_instances(void) {
    double one = 0, two = 0, alone = 0;
    pthread_t a, b;
    train_apart(&alone);
    if (pthread_create(&a, NULL, train_apart, &one) || pthread_create(&b, NULL, train_apart, &two)) abort();
    pthread_join(a, NULL), pthread_join(b, NULL);
    CHECK(one == alone && two == alone);
    const size_t bytes = gpt_bytes(3);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    gpt_options options = {.memory = memory, .bytes = bytes, .parallel = three_threads, .user = &loops, .threads = 3};
    gpt *m = made(&options);
    CHECK((void *)m == memory);
    CHECK(losses_of(m, 5) == alone);
    CHECK(loops > 0);
    gpt_destroy(m);
    CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &one) == GPT_EARGUMENT); /* it is gone, its memory is not */
    options.bytes = bytes - 1;
    CHECK(gpt_create(&options, &m) == GPT_EMEMORY && !m);
    options.bytes = bytes, options.memory = (char *)memory + 4;
    CHECK(gpt_create(&options, &m) == GPT_EARGUMENT);
    options.threads = -1;
    CHECK(gpt_create(&options, &m) == GPT_EARGUMENT);
    free(memory);
}

/* A callback that does not run every task once, each on a thread of its own: the step ends with an error in words. */
static void other_thread(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 0; i < count; i++) task(arg, i, 99);
}
static void beyond_the_end(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 0; i < count; i++) task(arg, i, 0);
    task(arg, count + 1000000, 0);
}
static void before_the_first(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = -1; i < count; i++) task(arg, i, 0);
}
static void skips_one(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 1; i < count; i++) task(arg, i, 0);
}
static void one_twice(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 1; i < count; i++) task(arg, i, 0);
    task(arg, count - 1, 0);
}
static void runs_nothing(void *user, gpt_task task, void *arg, int count) { (void)user, (void)task, (void)arg, (void)count; }

static void check_callbacks(void) {
    static const struct {
        gpt_parallel run;
        const char *words;
    } broken[] = {{other_thread, "thread 99, expected 0 to 1: options.threads is 2"},
                  {beyond_the_end, "1000"},
                  {before_the_first, "i -1, expected 0 to"},
                  {skips_one, "without having run each of"},
                  {one_twice, "without having run each of"},
                  {runs_nothing, "without having run each of"}};
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        gpt_options options = {.parallel = broken[k].run, .threads = 2};
        gpt *m = made(&options);
        double loss = -1;
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EPARALLEL && loss == -1);
        CHECK(strstr(gpt_message(m), broken[k].words) || !printf("it says: %s\n", gpt_message(m)));
        CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EPARALLEL && loss == -1);
        CHECK(gpt_predict(m, tokens, GPT_TOKENS, output, GPT_OUTPUTS) == GPT_EPARALLEL);
        gpt_destroy(m);
    }
    CHECK(strcmp(gpt_meaning(GPT_EPARALLEL), gpt_meaning(GPT_EPARALLEL - 1)) != 0);
}

/* --- Arguments ----------------------------------------------------------------------------------------- */

static void check_arguments(void) {
    gpt *m = made(NULL);
    double loss;
    float values[4] = {0};
    CHECK(gpt_create(NULL, NULL) == GPT_EARGUMENT);
    CHECK(gpt_bytes(-1) == 0 && gpt_bytes(100000) == 0 && gpt_bytes(2) > gpt_bytes(1));
    CHECK(gpt_step(NULL, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step((gpt *)(void *)output, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, NULL, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, GPT_TOKENS, NULL, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, NULL) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, 0, targets, 0, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, 2 * GPT_TOKENS, targets, 2 * GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "without --accumulate"));
    for (int bad = -1; bad <= 100000; bad += 100001) {
        tokens[3] = bad;
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EVALUE);
        CHECK(strstr(gpt_message(m), "the input 3 is"));
        CHECK(gpt_predict(m, tokens, GPT_TOKENS, output, GPT_OUTPUTS) == GPT_EVALUE);
        tokens[3] = 1, targets[5] = bad;
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EVALUE);
        CHECK(strstr(gpt_message(m), "the target 5 is"));
        targets[5] = 1;
    }
    CHECK(gpt_evaluate(m, tokens, 0, targets, 0, &loss) == GPT_EARGUMENT);
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS + one_input, targets, GPT_TARGETS + one_target, &loss) == GPT_EARGUMENT);
    CHECK(gpt_evaluate(m, tokens, one_input, targets, one_target, &loss) == GPT_OK && isfinite(loss));
    CHECK(gpt_predict(m, tokens, GPT_TOKENS, output, 7) == GPT_EARGUMENT);
    CHECK(gpt_set(m, "speed", 1) == GPT_ENAME && gpt_set(m, NULL, 1) == GPT_ENAME);
    CHECK(gpt_set(m, "lr", NAN) == GPT_EVALUE && gpt_set(m, "lr", -5) == GPT_EVALUE && gpt_set(m, "clip", -1) == GPT_EVALUE);
    CHECK(strstr(gpt_message(m), "the scalar 'clip' is -1, expected a number from 0 to 1e30"));
    CHECK(gpt_set(m, "beta1", 7) == GPT_EVALUE && gpt_set(m, "beta1", 1) == GPT_EVALUE && gpt_set(m, "lr", 0) == GPT_OK);
    CHECK(gpt_get(m, "beta1", &loss) == GPT_OK && loss > 0 && loss < 1);
    CHECK(gpt_get(m, "lr", &loss) == GPT_OK && gpt_get(m, "lr", NULL) == GPT_EARGUMENT);
    CHECK(gpt_read_tensor(m, "none", values, 4) == GPT_ENAME && gpt_read_tensor(m, NULL, values, 4) == GPT_EARGUMENT);
    CHECK(gpt_write_tensor(m, gpt_tensor_name(0), values, 4) == GPT_EARGUMENT);
    CHECK(gpt_load(m, "/nowhere") == GPT_EFILE && gpt_save(m, "/nowhere/w") == GPT_EFILE && gpt_load(m, NULL) == GPT_EARGUMENT);
    CHECK(!gpt_tensor_name(-1) && !gpt_tensor_name(gpt_tensor_count()) && strcmp(gpt_meaning(3), gpt_meaning(-99)) == 0);
    gpt_destroy(NULL);
    gpt_destroy(m);
}

/* Arrays of fewer examples, which end where a sanitizer sees it; and counts that do not belong together. */
static void check_counts(void) {
    gpt *m = made(NULL);
    double losses[GPT_BATCH], loss = 0, sum = 0;
    for (int e = 0; e < GPT_BATCH; e++) {
        int32_t *in = malloc(one_input * sizeof *in), *aims = malloc(one_target * sizeof *aims);
        memcpy(in, tokens + e * one_input, one_input * sizeof *in);
        memcpy(aims, targets + e * one_target, one_target * sizeof *aims);
        CHECK(gpt_evaluate(m, in, one_input, aims, one_target, &losses[e]) == GPT_OK);
        sum += losses[e];
        free(in), free(aims);
    }
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_OK);
    CHECK(losses[0] != losses[1] && fabs(sum / GPT_BATCH - loss) < 1e-5);
    CHECK(gpt_evaluate(m, tokens, one_input, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_evaluate(m, tokens, one_input - 1, targets, one_target, &loss) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "inputs and 8 targets, expected 8 and 8 of each of 1 to 2 examples") || one_target != 8);
    CHECK(gpt_step(m, tokens, GPT_TOKENS - 1, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, one_target, &loss) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "targets, expected ") && strstr(gpt_message(m), "of each micro-batch"));
    CHECK(gpt_predict(m, tokens, one_input, output, GPT_OUTPUTS) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "room for "));
    gpt_destroy(m);
}

/* Addresses that are not those of an array of their type. */
static void check_alignment(void) {
    static union {
        double number;
        char bytes[sizeof output + sizeof tokens + 16];
    } room;
    gpt *m = made(NULL), *other = NULL;
    double loss;
    memcpy(room.bytes + 1, tokens, sizeof tokens);
    const int32_t *odd = (const int32_t *)(const void *)(room.bytes + 1);
    double *odd_loss = (double *)(void *)(room.bytes + 4);
    float *odd_output = (float *)(void *)(room.bytes + 2);
    CHECK(gpt_step(m, odd, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(gpt_step(m, tokens, GPT_TOKENS, odd, GPT_TARGETS, &loss) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "step: inputs or targets are not aligned to 4 bytes"));
    CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, odd_loss) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "step: loss is not aligned to 8 bytes"));
    CHECK(gpt_evaluate(m, odd, one_input, targets, one_target, &loss) == GPT_EARGUMENT);
    CHECK(gpt_evaluate(m, tokens, one_input, odd, one_target, &loss) == GPT_EARGUMENT);
    CHECK(gpt_evaluate(m, tokens, one_input, targets, one_target, odd_loss) == GPT_EARGUMENT);
    CHECK(gpt_predict(m, odd, GPT_TOKENS, output, GPT_OUTPUTS) == GPT_EARGUMENT);
    CHECK(gpt_predict(m, tokens, GPT_TOKENS, odd_output, GPT_OUTPUTS) == GPT_EARGUMENT);
    CHECK(gpt_get(m, "lr", odd_loss) == GPT_EARGUMENT);
    CHECK(gpt_read_tensor(m, gpt_tensor_name(0), odd_output, 1) == GPT_EARGUMENT);
    CHECK(gpt_write_tensor(m, gpt_tensor_name(0), odd_output, 1) == GPT_EARGUMENT);
    CHECK(strstr(gpt_message(m), "are not aligned to 4 bytes"));
    CHECK(gpt_tensor_shape(0, (int64_t *)(void *)(room.bytes + 4)) == GPT_EARGUMENT);
    CHECK(gpt_create((const gpt_options *)(const void *)(room.bytes + 4), &other) == GPT_EARGUMENT);
    CHECK(gpt_create(NULL, (gpt **)(void *)(room.bytes + 4)) == GPT_EARGUMENT);
    gpt_destroy(m);
}

/* --- Going on in another instance ----------------------------------------------------------------------- */

static void copy_tensors(gpt *from, gpt *to) {
    for (int t = 0; t < gpt_tensor_count(); t++) {
        int64_t shape[4], count = 1;
        const int dimensions = gpt_tensor_shape(t, shape);
        for (int d = 0; d < dimensions; d++) count *= shape[d];
        float *values = malloc((size_t)count * sizeof *values);
        CHECK(gpt_read_tensor(from, gpt_tensor_name(t), values, (size_t)count) == GPT_OK);
        CHECK(gpt_write_tensor(to, gpt_tensor_name(t), values, (size_t)count) == GPT_OK);
        values[count - 1] = INFINITY;
        CHECK(gpt_write_tensor(to, gpt_tensor_name(t), values, (size_t)count) == GPT_EVALUE);
        free(values);
    }
}

static void check_resume(void) {
    gpt *m = made(NULL), *other = NULL;
    double step = -1, other_step = -1, a = 0, b = 1;
    CHECK(gpt_get(m, "step", &step) == GPT_OK && step == 0);
    for (int i = 0; i < 7; i++) CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &a) == GPT_OK);
    CHECK(gpt_get(m, "step", &step) == GPT_OK && step == 7);
    CHECK(gpt_create(NULL, &other) == GPT_OK);
    copy_tensors(m, other);
    CHECK(gpt_set(other, "step", step) == GPT_OK);
    CHECK(gpt_get(other, "step", &other_step) == GPT_OK && other_step == 7);
    for (int i = 0; i < 5; i++) {
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &a) == GPT_OK);
        CHECK(gpt_step(other, tokens, GPT_TOKENS, targets, GPT_TARGETS, &b) == GPT_OK);
        CHECK(a == b);
    }
    CHECK(gpt_set(m, "step", -1) == GPT_EVALUE && gpt_set(m, "step", 2.5) == GPT_EVALUE);
    CHECK(gpt_set(m, "step", 1e300) == GPT_EVALUE && strstr(gpt_message(m), "expected a number from 0 to 2"));
    CHECK(gpt_set(m, "loss_scale", 1) == GPT_ENAME && gpt_get(m, "loss_scale", &a) == GPT_ENAME);
    gpt_destroy(m), gpt_destroy(other);
}

/* --- Tensors by name, files ----------------------------------------------------------------------------- */

static void check_tensors(void) {
    gpt *m = made(NULL), *other = NULL;
    CHECK(gpt_create(NULL, &other) == GPT_OK);
    copy_tensors(m, other);
    CHECK(losses_of(m, 2) == losses_of(other, 2));
    CHECK(gpt_save(m, "saved.safetensors") == GPT_OK);
    gpt_destroy(other);
    CHECK(gpt_create(NULL, &other) == GPT_OK && gpt_load(other, "saved.safetensors") == GPT_OK);
    double a = 0, b = 1;
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &a) == GPT_OK);
    CHECK(gpt_evaluate(other, tokens, GPT_TOKENS, targets, GPT_TARGETS, &b) == GPT_OK);
    CHECK(a == b);
    gpt_destroy(m), gpt_destroy(other);
}

/* --- Hostile weights: whatever is wrong, the weights stay ----------------------------------------------- */

static uint64_t state = 1;
static uint32_t drawn(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static void check_hostile(int times) {
    gpt *m = made(NULL);
    const uint32_t header = weights[0] + 256u * weights[1] + 8;
    int refused = 0;
    double before, after;
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &before) == GPT_OK);
    unsigned char *bytes = malloc(weight_bytes);
    for (int i = 0; i < times; i++) {
        memcpy(bytes, weights, weight_bytes);
        const size_t size = drawn(3) ? weight_bytes : drawn((uint32_t)weight_bytes);
        for (uint32_t k = drawn(4) + (size == weight_bytes); k > 0; k--) {
            const uint32_t at = drawn(header);
            if (drawn(2)) bytes[at] = (unsigned char)drawn(256);
            else memmove(bytes + at, bytes + drawn(header), drawn(header - at));
        }
        unsigned char *exact = malloc(size ? size : 1); /* the sanitizer sees a read past the end */
        memcpy(exact, bytes, size);
        const int code = gpt_load_bytes(m, exact, size);
        CHECK(code == GPT_OK || (code >= GPT_EPARALLEL && gpt_message(m)[0]));
        refused += code != GPT_OK;
        free(exact);
        if (code == GPT_OK) CHECK(gpt_load_bytes(m, weights, weight_bytes) == GPT_OK);
    }
    CHECK(refused > times / 2);
    CHECK(gpt_evaluate(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &after) == GPT_OK && after == before);
    memcpy(bytes, weights, weight_bytes);
    bytes[weight_bytes - 1] = 0x7f, bytes[weight_bytes - 2] = 0x80; /* infinite */
    CHECK(gpt_load_bytes(m, bytes, weight_bytes) == GPT_EVALUE);
    CHECK(gpt_load_bytes(m, NULL, 9) == GPT_EARGUMENT && gpt_load_bytes(m, weights, 0) == GPT_EFORMAT);
    free(bytes);
    gpt_destroy(m);
}

/* A library whose kernels have no room for temporaries. */
static void check_starved(void) {
    for (int threads = 1; threads <= 3; threads += 2) {
        gpt_options options = {.parallel = threads == 1 ? NULL : three_threads, .user = &loops, .threads = threads};
        gpt *m = made(&options);
        double loss = -1;
        CHECK(gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss) == GPT_EKERNEL && loss == -1);
        CHECK(strstr(gpt_message(m), "a kernel needs more temporaries than the 0 bytes of a thread"));
        gpt_destroy(m);
    }
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 || argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!file) return fprintf(stderr, "usage: library_checks WEIGHTS [starved]\n"), 2;
    weight_bytes = fread(weights, 1, sizeof weights, file);
    fclose(file);
    for (int i = 0; i < GPT_TOKENS; i++) tokens[i] = (i * 7) % 40, targets[i] = (i * 7 + 7) % 40;
    if (argc == 3) return check_starved(), failures > 0;
    check_arguments();
    check_counts();
    check_alignment();
    check_instances();
    check_callbacks();
    check_resume();
    check_tensors();
    check_hostile(3000);
    if (!failures) printf("the library keeps its promises\n");
    return failures > 0;
}
