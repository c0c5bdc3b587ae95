/* Random arguments for every function of an exported library (gpt): null pointers, addresses that are not aligned,
 * wrong counts, ids out of range, other names, callbacks that break their promise. After each call its code is a known
 * one, a refused call has changed nothing, and a step has the loss that it always had. Arrays are exactly as long as
 * their counts say, so that a sanitizer sees a read past their end. usage: library_fuzz WEIGHTS TIMES */
#include "gpt.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { one_input = GPT_TOKENS / GPT_BATCH, one_target = GPT_TARGETS / GPT_BATCH, most_held = 16 };
static gpt *live; /* the instance that every call may be given */
static int32_t tokens[GPT_TOKENS], targets[GPT_TARGETS];
static const char *const scalars[] = {
    "lr", "beta1", "beta2", "eps", "weight_decay", "clip", "ema", "step", "none", "loss_scale", "bias1", "", NULL};
static const char *paths[] = {
    "fuzzed.safetensors", "", ".", "/nowhere/w", NULL, NULL, NULL}; /* the last: weights, a long one */

/* --- What is drawn --------------------------------------------------------------------------------------- */

static uint64_t state = 7;
static uint32_t drawn(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}
static bool seldom(void) { return drawn(6) == 0; }

static void *held[most_held]; /* what a call was given, to be freed after it */
static int held_count;
static void *hold(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p || held_count == most_held) abort();
    memset(p, 0, bytes ? bytes : 1);
    return held[held_count++] = p;
}
static void free_held(void) {
    while (held_count) free(held[--held_count]);
}

/* Null, an address that is not aligned, or `bytes` bytes and no more. */
static void *pointer(size_t bytes) {
    if (!seldom()) return hold(bytes);
    return drawn(2) ? NULL : (char *)hold(bytes + 16) + 1 + drawn(3);
}
/* Often `right`, or a few times it; else near it, or anything. */
static size_t count_near(size_t right) {
    if (!seldom()) return right;
    const size_t others[] = {0,         1, right - 1, right + 1,        2 * right,
                             3 * right, 7, SIZE_MAX,  SIZE_MAX / 4 + 2, (size_t)1 << 62};
    return others[drawn(sizeof others / sizeof *others)];
}
/* How many elements an array of a count has that no memory could have. */
static size_t as_held(size_t count) { return count > 1000000 ? 1 : count; }

static int32_t *ids(size_t count) {
    int32_t *p = pointer(as_held(count) * sizeof *p);
    static const int32_t odd[] = {-1, 1 << 30, INT32_MIN, 100000, -100, 41};
    if (!p || (uintptr_t)p % sizeof *p) return p;
    for (size_t i = 0; i < as_held(count); i++) p[i] = (int32_t)drawn(40);
    if (seldom() && as_held(count)) p[drawn((uint32_t)as_held(count))] = odd[drawn(6)];
    return p;
}
static double number(void) {
    static const double numbers[] = {0, 1, 0.5, 1e-3, 0.9, -1, 2.5, 7, 1e300, INFINITY, NAN, -0.0, 1e-320};
    return numbers[drawn(sizeof numbers / sizeof *numbers)];
}
/* The live instance, none, or memory that is none. */
static gpt *instance(void) { return seldom() ? (drawn(2) ? NULL : pointer(256)) : live; }
static const char *text(const char *const *texts, size_t count) { return texts[drawn((uint32_t)count)]; }

/* --- Callbacks ------------------------------------------------------------------------------------------- */

static void in_order(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 0; i < count; i++) task(arg, i, 0);
}
static void skips_some(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 0; i < count; i++)
        if (drawn(8)) task(arg, i, 0);
}
static void anything(void *user, gpt_task task, void *arg, int count) {
    (void)user;
    for (int i = 0; i < count; i++)
        task(arg, seldom() ? (int)drawn(1000) - 500 : i, seldom() ? (int)drawn(2000) - 1000 : 0);
}

/* --- Calls ----------------------------------------------------------------------------------------------- */

static int call_create(void) {
    static const gpt_parallel callbacks[] = {NULL, in_order, skips_some, anything};
    static const int thread_counts[] = {0, 1, 2, 5, 1024, 1025, -1, INT32_MIN, INT32_MAX};
    static const char *const sets[] = {NULL, NULL, "host", "sse9", ""};
    const int kind = (int)drawn(4);
    gpt_options *options = pointer(sizeof *options);
    gpt **made = pointer(sizeof *made), *m = NULL;
    if (options && (uintptr_t)options % sizeof(void *) == 0) {
        options->threads = seldom() ? thread_counts[drawn(9)] : (int)drawn(3);
        options->parallel = callbacks[kind], options->instructions = text(sets, 5);
        const size_t needed = gpt_bytes(options->threads);
        options->bytes = count_near(needed);
        const size_t given = options->bytes < needed ? options->bytes : needed; /* what is beyond is not used */
        if (drawn(2)) options->memory = aligned_alloc(64, (given + 64) / 64 * 64);
        if (options->memory && held_count < most_held) held[held_count++] = options->memory;
        if (seldom() && options->memory) options->memory = (char *)options->memory + 8;
    }
    const int code = gpt_create(options, made);
    if (code || (m = *made, !m)) return code ? code : -100;
    double loss;
    const int step = gpt_step(m, tokens, GPT_TOKENS, targets, GPT_TARGETS, &loss);
    if (step != GPT_OK && (step != GPT_EPARALLEL || !options || kind < 2)) return -101;
    gpt_destroy(m);
    return step;
}

static int call_step(gpt *m) {
    const size_t times = seldom() ? drawn(4) : 1, i = count_near(times * GPT_TOKENS),
                 t = count_near(times * GPT_TARGETS);
    const int32_t *in = ids(i), *aims = ids(t);
    return gpt_step(m, in, i, aims, t, pointer(sizeof(double)));
}
static int call_evaluate(gpt *m) {
    const size_t examples = drawn(GPT_BATCH) + 1, i = count_near(examples * one_input),
                 t = count_near(examples * one_target);
    const int32_t *in = ids(i), *aims = ids(t);
    return gpt_evaluate(m, in, i, aims, t, pointer(sizeof(double)));
}
static int call_predict(gpt *m) {
    const size_t i = count_near(GPT_TOKENS), o = count_near(GPT_OUTPUTS);
    const int32_t *in = ids(i);
    return gpt_predict(m, in, i, pointer(as_held(o) * sizeof(float)), o);
}
static int call_tensor(gpt *m) {
    int64_t shape[4], count = 1;
    const int t = (int)drawn((uint32_t)gpt_tensor_count()), dimensions = gpt_tensor_shape(t, shape);
    for (int d = 0; d < dimensions; d++) count *= shape[d];
    const char *const names[] = {gpt_tensor_name(t), gpt_tensor_name(t), gpt_tensor_name(t), "none", "", NULL};
    const size_t n = count_near((size_t)count);
    float *values = pointer(as_held(n) * sizeof *values);
    if (drawn(2)) return gpt_read_tensor(m, text(names, 6), values, n);
    if (seldom() && values && (uintptr_t)values % 4 == 0 && as_held(n)) values[drawn((uint32_t)as_held(n))] = NAN;
    return gpt_write_tensor(m, text(names, 6), values, n);
}
static int call_shape(void) {
    const int wild[] = {-1, gpt_tensor_count(), INT32_MAX, INT32_MIN};
    const int t = seldom() ? wild[drawn(4)] : (int)drawn((uint32_t)gpt_tensor_count());
    const int code = gpt_tensor_shape(t, pointer(4 * sizeof(int64_t)));
    if (!gpt_tensor_name(t) != (t < 0 || t >= gpt_tensor_count())) return -102;
    return code > 0 && code <= 4 ? GPT_OK : code;
}
static int call_file(gpt *m) {
    const char *path = text(paths, sizeof paths / sizeof *paths);
    if (drawn(2)) return gpt_load(m, path);
    return path == paths[5] ? GPT_OK : gpt_save(m, path); /* the weights to begin with stay */
}
static int call_bytes(gpt *m) {
    const size_t n = count_near(200);
    unsigned char *bytes = pointer(as_held(n));
    return gpt_load_bytes(m, bytes, as_held(n));
}
static int call_words(gpt *m) {
    if (!gpt_message(m) || !gpt_meaning((int)drawn(40) - 20)) return -103;
    if (m != live && (gpt_instructions(m) || (gpt_destroy(m), false))) return -104;
    return gpt_bytes((int)drawn(3000) - 1000) < (size_t)1 << 40 ? GPT_OK : -105;
}

static bool says_why; /* the last call leaves words in its instance */
static int any_call(gpt *m) {
    const char *scalar = text(scalars, sizeof scalars / sizeof *scalars);
    const uint32_t which = drawn(11);
    says_why = m == live && which != 6 && which != 7 && which != 8 && which != 10;
    switch (which) {
    case 0:
        return call_step(m);
    case 1:
        return call_evaluate(m);
    case 2:
        return call_predict(m);
    case 3:
        return call_tensor(m);
    case 4:
        return call_file(m);
    case 5:
        return call_bytes(m);
    case 6:
        return call_shape();
    case 7:
        return call_create();
    case 8:
        return gpt_get(m, scalar, pointer(sizeof(double)));
    case 9:
        return gpt_set(m, scalar, number());
    default:
        return call_words(m);
    }
}

/* --- What must hold after each --------------------------------------------------------------------------- */

static float *whole; /* all tensors, as they were first */
static double numbers[sizeof scalars / sizeof *scalars];
static bool known[sizeof scalars / sizeof *scalars];

static int64_t elements(int t) {
    int64_t shape[4], count = 1;
    const int dimensions = gpt_tensor_shape(t, shape);
    for (int d = 0; d < dimensions; d++) count *= shape[d];
    return count;
}
static bool keep_or_restore(bool keep) {
    bool good = true;
    float *at = whole;
    for (int t = 0; t < gpt_tensor_count(); at += elements(t++)) {
        const size_t n = (size_t)elements(t);
        good &= (keep ? gpt_read_tensor(live, gpt_tensor_name(t), at, n)
                      : gpt_write_tensor(live, gpt_tensor_name(t), at, n)) == GPT_OK;
    }
    for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++) {
        if (keep)
            known[s] = gpt_get(live, scalars[s], &numbers[s]) == GPT_OK;
        else if (known[s])
            good &= gpt_set(live, scalars[s], numbers[s]) == GPT_OK;
    }
    return good;
}
static bool good_step(double *loss) { return gpt_step(live, tokens, GPT_TOKENS, targets, GPT_TARGETS, loss) == GPT_OK; }
static bool evaluated(double *loss) {
    return gpt_evaluate(live, tokens, GPT_TOKENS, targets, GPT_TARGETS, loss) == GPT_OK;
}

static bool fuzz_once(double expected) {
    double before = 0, after = 0, loss = 0;
    if (!evaluated(&before)) return puts("FAILED: an evaluation before the call"), false;
    const int code = any_call(instance());
    free_held();
    if (code > GPT_OK || code < GPT_EPARALLEL) return printf("FAILED: a call ended with %d\n", code), false;
    if (code && says_why && !gpt_message(live)[0]) return printf("FAILED: %d without words\n", code), false;
    if (code && (!evaluated(&after) || after != before))
        return printf("FAILED: a call that ended with %d has changed it\n", code), false;
    if (code && !good_step(&loss)) return printf("FAILED: no step after %d: %s\n", code, gpt_message(live)), false;
    if (!keep_or_restore(false))
        return printf("FAILED: its tensors and numbers cannot be put back: %s\n", gpt_message(live)), false;
    if (!good_step(&loss) || loss != expected)
        return printf("FAILED: after %d a step has the loss %.9g, not %.9g\n", code, loss, expected), false;
    return true;
}

int main(int argc, char **argv) {
    if (argc != 3 || gpt_create(NULL, &live)) return fprintf(stderr, "usage: library_fuzz WEIGHTS TIMES\n"), 2;
    static char long_path[3000];
    memset(long_path, 'p', sizeof long_path - 1);
    paths[5] = argv[1], paths[6] = long_path;
    if (gpt_load(live, argv[1])) return fprintf(stderr, "%s\n", gpt_message(live)), 2;
    for (int i = 0; i < GPT_TOKENS; i++) tokens[i] = (i * 7) % 40;
    for (int i = 0; i < GPT_TARGETS; i++) targets[i] = (i * 7 + 7) % 40;
    size_t all = 0;
    for (int t = 0; t < gpt_tensor_count(); t++) all += (size_t)elements(t);
    whole = malloc(all * sizeof *whole);
    double expected = 0;
    bool good = whole && keep_or_restore(true) && good_step(&expected) && keep_or_restore(false);
    const int times = atoi(argv[2]);
    for (int i = 0; good && i < times; i++)
        if (!(good = fuzz_once(expected))) printf("FAILED: the call %d\n", i);
    free(whole);
    gpt_destroy(live);
    if (good && times > 0) printf("%d calls with random arguments\n", times);
    return !good || times <= 0;
}
