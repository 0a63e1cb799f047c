/* A sampler in C99 that answers an export of `aliquot vectors export DIR`.
 *
 *     cc -std=c99 -O2 -o example example.c -lm
 *     ./example DIR RESULTS.jsonl
 *     aliquot vectors judge DIR RESULTS.jsonl
 *
 * It knows temperature, min-p, top-k, top-p, greedy rows and draws by inverse CDF. Cases with another parameter get
 * no answer and are judged as not answered. It reads cases.txt, and arrays.npz at the offsets given there.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 2048, MOST_ASKS = 16, LINE = 1 << 20 };

struct row {
    long logits; /* offset in bytes */
    double temperature, top_p, min_p;
    long top_k;
};

struct ask {
    char kind[32];
    long draws, noise;
};

struct batch {
    long number, rows, vocab, asks;
    char dtype[16];
    int known; /* whether every parameter is one of ours */
    struct row row[MOST_ROWS];
    struct ask ask[MOST_ASKS];
};

struct token {
    double logit, weight;
    long id;
};

static FILE *arrays, *results;
static uint64_t state = 1;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "example: %s %s\n", what, name);
    exit(2);
}

static void *memory(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size);
    if (!block) die("no memory for", "an array");
    return block;
}

static void read_at(long offset, void *into, size_t size, size_t count)
{
    if (fseek(arrays, offset, SEEK_SET) || fread(into, size, count, arrays) != count)
        die("cannot read", "arrays.npz");
}

/* One uniform in [0, 1): splitmix64, the upper 53 bits. */
static double uniform(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* Logits as double; bfloat16 are the upper 16 bits of a float. Returns 0 for a dtype that we do not read. */
static int load(const struct batch *b, const struct row *row, struct token *tokens)
{
    long t, wide = !strcmp(b->dtype, "float32");
    void *raw;
    if (!wide && strcmp(b->dtype, "bfloat16")) return 0;
    raw = memory(b->vocab, wide ? 4 : 2);
    read_at(row->logits, raw, wide ? 4 : 2, b->vocab);
    for (t = 0; t < b->vocab; t++) {
        uint32_t bits = wide ? ((uint32_t *)raw)[t] : (uint32_t)((uint16_t *)raw)[t] << 16;
        float value;
        memcpy(&value, &bits, 4);
        tokens[t].logit = value;
        tokens[t].id = t;
    }
    free(raw);
    return 1;
}

static int falling(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

/* Tokens equal to the last kept one stay too: ties are not cut. */
static long with_ties(const struct token *tokens, long kept, long alive)
{
    while (kept < alive && tokens[kept].logit == tokens[kept - 1].logit) kept++;
    return kept;
}

static double weigh(struct token *tokens, long count, double temperature)
{
    double sum = 0;
    long i;
    for (i = 0; i < count; i++)
        sum += tokens[i].weight = exp((tokens[i].logit - tokens[0].logit) / temperature);
    return sum;
}

static long min_p(const struct token *tokens, long count, double threshold)
{
    long kept = 1;
    if (threshold == 0) return count;
    while (kept < count && tokens[kept].weight >= threshold) kept++;
    return kept;
}

static long top_k(const struct token *tokens, long count, long k)
{
    return k < 1 || k >= count ? count : with_ties(tokens, k, count);
}

/* A token stays while the mass of those before it is below p, so the one that crosses p stays. */
static long top_p(const struct token *tokens, long count, double p)
{
    double sum = 0, before = 0;
    long i, kept = 0;
    if (p >= 1) return count;
    for (i = 0; i < count; i++) sum += tokens[i].weight;
    while (kept < count && (kept == 0 || before / sum < p)) before += tokens[kept++].weight;
    return with_ties(tokens, kept, count);
}

/* The tokens that a row keeps, in the order of their ids with their weights; 0 for a row without a law. */
static long filter(const struct batch *b, const struct row *row, struct token *tokens)
{
    int greedy = row->temperature < 1e-5;
    long t, alive = 0;
    for (t = 0; t < b->vocab; t++) {
        if (isnan(tokens[t].logit) || tokens[t].logit == INFINITY) return 0;
        if (tokens[t].logit > -INFINITY) tokens[alive++] = tokens[t];
    }
    if (!alive) return 0;
    qsort(tokens, alive, sizeof *tokens, falling);
    if (greedy) {
        tokens[0].weight = 1;
        return 1; /* the largest logit, the lowest id among equals */
    }
    weigh(tokens, alive, row->temperature);
    alive = min_p(tokens, alive, row->min_p);
    alive = top_k(tokens, alive, row->top_k);
    alive = top_p(tokens, alive, row->top_p);
    qsort(tokens, alive, sizeof *tokens, by_id);
    return alive;
}

/* The first id whose cumulated probability exceeds u. */
static long draw(const struct token *tokens, const double *cumulated, long count, double u)
{
    long low = 0, high = count - 1;
    while (low < high) {
        long middle = (low + high) / 2;
        if (cumulated[middle] > u * cumulated[count - 1]) high = middle;
        else low = middle + 1;
    }
    return tokens[low].id;
}

static double *cumulate(const struct token *tokens, long count)
{
    double *sums = memory(count, sizeof *sums), sum = 0;
    long i;
    for (i = 0; i < count; i++) sums[i] = sum += tokens[i].weight;
    return sums;
}

static void print_draws(const struct ask *ask, long r, const struct token *tokens, long count)
{
    double *sums = cumulate(tokens, count), *noise = memory(ask->draws, sizeof *noise);
    long i;
    if (ask->noise) read_at(ask->noise + 8 * r * ask->draws, noise, 8, ask->draws);
    for (i = 0; i < ask->draws; i++) {
        double u = ask->noise ? noise[i] : uniform();
        fprintf(results, "%s%ld", i ? "," : "", draw(tokens, sums, count, u));
    }
    free(noise);
    free(sums);
}

static void print_kept(const struct token *tokens, long count)
{
    long i;
    for (i = 0; i < count; i++) fprintf(results, "%s%ld", i ? "," : "", tokens[i].id);
}

static int ours(const char *kind)
{
    return !strcmp(kind, "ids") || !strcmp(kind, "draws") || !strcmp(kind, "inverse_cdf")
        || !strcmp(kind, "kept");
}

/* One line a question: {"case":3,"draws":[[1,0,2],[4,4,4]]}. A greedy row's processed row is not its argmax: no kept. */
static void answer(const struct batch *b, const struct ask *ask, struct token **tokens, const long *counts)
{
    int single = !strcmp(ask->kind, "ids"), kept = !strcmp(ask->kind, "kept");
    long r;
    if (!ours(ask->kind)) return;
    for (r = 0; r < b->rows; r++)
        if (kept && b->row[r].temperature < 1e-5) return;
    fprintf(results, "{\"case\":%ld,\"%s\":[", b->number, ask->kind);
    for (r = 0; r < b->rows; r++) {
        fprintf(results, "%s%s", r ? "," : "", single ? "" : "[");
        if (kept) print_kept(tokens[r], counts[r]);
        else print_draws(ask, r, tokens[r], counts[r]);
        fprintf(results, "%s", single ? "" : "]");
    }
    fprintf(results, "]}\n");
}

/* A bad row is refused for the whole batch: {"case":9,"refused":{"row":1}}. */
static void refuse(const struct batch *b, long r)
{
    long i;
    for (i = 0; i < b->asks; i++)
        if (!strcmp(b->ask[i].kind, "ids"))
            fprintf(results, "{\"case\":%ld,\"refused\":{\"row\":%ld}}\n", b->number, r);
}

static void answer_all(const struct batch *b)
{
    struct token **tokens;
    long r, i, loaded = 1, bad = -1, *counts;
    if (!b->known || !b->rows) return;
    tokens = memory(b->rows, sizeof *tokens);
    counts = memory(b->rows, sizeof *counts);
    for (r = 0; r < b->rows && loaded; r++) {
        tokens[r] = memory(b->vocab, sizeof **tokens);
        loaded = load(b, &b->row[r], tokens[r]);
        counts[r] = loaded ? filter(b, &b->row[r], tokens[r]) : 0;
        if (loaded && !counts[r] && bad < 0) bad = r;
    }
    if (loaded && bad >= 0) refuse(b, bad);
    for (i = 0; loaded && bad < 0 && i < b->asks; i++) answer(b, &b->ask[i], tokens, counts);
    for (r = 0; r < b->rows; r++) free(tokens[r]);
    free(tokens);
    free(counts);
}

/* A parameter out of its range would have to be refused; we leave such cases unanswered. */
static int allowed(const struct row *row)
{
    return row->temperature >= 0 && row->temperature < INFINITY && row->top_p > 0 && row->top_p <= 1
        && row->min_p >= 0 && row->min_p <= 1 && row->top_k >= -1;
}

static void read_row(struct batch *b, struct row *row, char *words)
{
    char *word;
    *row = (struct row){0, 1.0, 1.0, 0.0, 0};
    for (word = strtok(words, " \n"); word; word = strtok(NULL, " \n")) {
        char *value = strchr(word, '=');
        if (!value) die("no value in", word);
        *value++ = 0;
        if (!strcmp(word, "logits")) row->logits = atol(value);
        else if (!strcmp(word, "temperature")) row->temperature = (float)atof(value);
        else if (!strcmp(word, "top_p")) row->top_p = (float)atof(value);
        else if (!strcmp(word, "min_p")) row->min_p = (float)atof(value);
        else if (!strcmp(word, "top_k")) row->top_k = strchr(value, '.') ? -2 : atol(value);
        else if (strcmp(word, "prompt_token_ids") && strcmp(word, "output_token_ids")) b->known = 0;
    }
    if (!allowed(row)) b->known = 0;
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!(file = fopen(path, "rb"))) die("cannot open", path);
    return file;
}

int main(int count, char **words)
{
    static struct batch b;
    static char line[LINE];
    FILE *cases;
    long row = 0;
    if (count != 3) die("usage:", "example DIR RESULTS");
    cases = open_in(words[1], "cases.txt");
    arrays = open_in(words[1], "arrays.npz");
    if (!(results = fopen(words[2], "w"))) die("cannot write", words[2]);
    if (!fgets(line, LINE, cases) || strcmp(line, "aliquot-vectors 1\n")) die("not the format of", "cases.txt");
    fprintf(results, "{\"sampler\":\"example.c\",\"version\":\"1\"}\n");
    while (fgets(line, LINE, cases)) {
        if (!strncmp(line, "case ", 5)) {
            answer_all(&b);
            memset(&b, 0, offsetof(struct batch, row));
            row = 0;
            b.known = 1;
            if (sscanf(line + 5, "%ld %ld %ld %15s", &b.number, &b.rows, &b.vocab, b.dtype) != 4)
                die("cannot read", line);
            if (b.rows > MOST_ROWS) b.known = 0;
        } else if (!strncmp(line, "ask ", 4) && b.asks < MOST_ASKS) {
            struct ask *ask = &b.ask[b.asks++];
            ask->noise = 0;
            if (sscanf(line + 4, "%31s %ld %ld", ask->kind, &ask->draws, &ask->noise) < 2) die("cannot read", line);
        } else if (!strncmp(line, "row ", 4) && row < MOST_ROWS) {
            read_row(&b, &b.row[row++], line + 4);
        }
    }
    answer_all(&b);
    return fclose(results) ? 2 : 0;
}
