/*
@about@
 *
 *     @name@_state state;
 *     @name@_init(&state);
 *     for (;;) {
 *         ...                                  read x, NAN where a channel was not observed
 *         @name@_step(&state, x@arguments@);
 *         @name@_predict(&state, 1, expected);    the row that comes next
 *     }
 *
 * Functions return 0, or -1 if they refuse their arguments; a refused call changes nothing. Nothing is allocated, and
 * nothing but the state is written, so a program may run any number of streams; to copy a state is to copy the struct.
 *
 * Define before the first #include, if wanted:
 *   @NAME@_FLOAT    compute in float; double is the default.
 *   @NAME@_NO_GAPS  sensors never fail: no covariance is kept, and a row with NAN is refused.
 * Do not compile with -ffast-math: it cannot tell NAN.
 *
 * Size of a state: @size@ bytes in double, @size_float@ in float;
 * with @NAME@_NO_GAPS @size_no_gaps@ and @size_float_no_gaps@. Constants: @size_constants@ bytes in double.
 */
#ifndef @NAME@_H
#define @NAME@_H

#include <math.h>

#ifdef @NAME@_FLOAT
typedef float @name@_real;
#define @NAME@_COS cosf
#define @NAME@_SIN sinf
#define @NAME@_LOG logf
#define @NAME@_SQRT sqrtf
#else
typedef double @name@_real;
#define @NAME@_COS cos
#define @NAME@_SIN sin
#define @NAME@_LOG log
#define @NAME@_SQRT sqrt
#endif

#ifdef __cplusplus
#define @NAME@_RESTRICT
#else
#define @NAME@_RESTRICT restrict
#endif

@sizes@

typedef struct {
    @name@_real z[@NAME@_WIDTH];   /* the last step's input: feedback, the last rows (newest first), inputs; standardised */
    @name@_real next[@NAME@_NEXT]; /* its result: the next feedback, and the row to expect */
#ifndef @NAME@_NO_GAPS
    @name@_real covariance[@NAME@_COVARIANCE * @NAME@_COVARIANCE]; /* of feedback, next row and last rows, after a gap */
#if @NAME@_SLOPES > 0
    @name@_real slope[@NAME@_SLOPES]; /* room for the derivative of a step */
#endif
#endif
    int started;  /* rows so far, counted as far as they matter */
    int age;      /* rows since anything was first observed, counted as far as they matter */
    int unseen;   /* rows since anything was last observed, counted as far as they matter */
    int in_doubt; /* 1 if the covariance is not zero */
} @name@_state;

@constants@

/* Keep feedback inside the box. */
static inline void @name@_box(@name@_real *fed)
{
#if @NAME@_BOX
    int i;
    for (i = 0; i < @NAME@_FED; i++) {
        if (fed[i] < @name@_low[i]) fed[i] = @name@_low[i];
        if (fed[i] > @name@_high[i]) fed[i] = @name@_high[i];
    }
#else
    (void)fed;
#endif
}

#if @NAME@_WAVES > 0
/* The angle of a wave; by four sums, because an addition need not wait for the one before. */
static inline @name@_real @name@_angle(const @name@_real *z, int wave)
{
    const @name@_real *row = @name@_directions + wave * @NAME@_WIDTH;
    @name@_real sum[4] = {0, 0, 0, 0};
    int i;
    for (i = 0; i + 3 < @NAME@_WIDTH; i += 4) {
        sum[0] += z[i] * row[i];
        sum[1] += z[i + 1] * row[i + 1];
        sum[2] += z[i + 2] * row[i + 2];
        sum[3] += z[i + 3] * row[i + 3];
    }
    for (; i < @NAME@_WIDTH; i++) sum[0] += z[i] * row[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
#endif

/* Add rows of weights to `out`, each times its entry of z; four at a time, so that `out` is read and written less. */
static inline void @name@_add(@name@_real *@NAME@_RESTRICT out, int count, const @name@_real *@NAME@_RESTRICT weights,
                              const @name@_real *@NAME@_RESTRICT z, int rows)
{
    int i, j;
    for (j = 0; j + 3 < rows; j += 4, weights += 4 * count)
        for (i = 0; i < count; i++)
            out[i] += (weights[i] * z[j] + weights[count + i] * z[j + 1])
                + (weights[2 * count + i] * z[j + 2] + weights[3 * count + i] * z[j + 3]);
    for (; j < rows; j++, weights += count)
        for (i = 0; i < count; i++) out[i] += weights[i] * z[j];
}

/* A map of z: a row of biases, then a row of weights for each coordinate of z, each cosine and each sine. */
static inline void @name@_apply(const @name@_real *weights, int count, const @name@_real *z, @name@_real *out)
{
    int i;
#if @NAME@_WAVES > 0
    const @name@_real *row = weights + (1 + @NAME@_RAW) * count;
    int j;
#endif
    for (i = 0; i < count; i++) out[i] = weights[i];
    @name@_add(out, count, weights + count, z, @NAME@_RAW);
#if @NAME@_WAVES > 0
    for (j = 0; j < @NAME@_WAVES; j++, row += count) {
        const @name@_real angle = @name@_angle(z, j), *sines = row + @NAME@_WAVES * count;
        const @name@_real c = @NAME@_COS(angle), s = @NAME@_SIN(angle);
        for (i = 0; i < count; i++) out[i] += row[i] * c + sines[i] * s;
    }
#endif
}

/* Make room for a row: the last rows move on, and feedback and expected row take their places. */
static inline void @name@_shift(@name@_real *z, const @name@_real *next)
{
    int i;
    for (i = @NAME@_SEEN - 1; i >= @NAME@_NEXT; i--) z[i] = z[i - @NAME@_CHANNELS];
    for (i = 0; i < @NAME@_NEXT; i++) z[i] = next[i];
}

/* The first row stands for all rows before it, unless first rows have gains of their own. */
static inline void @name@_repeat(@name@_real *z)
{
#if @NAME@_OPENING
    (void)z;
#else
    int i;
    for (i = @NAME@_NEXT; i < @NAME@_SEEN; i++) z[i] = z[i - @NAME@_CHANNELS];
#endif
}

#if @NAME@_OPENING
/* Move the memory by the errors of a first row, while nothing was missing. */
static inline void @name@_open(@name@_real *z, int age, const @name@_real *next, const @name@_real *x)
{
    const @name@_real *gain = @name@_gains + age * @NAME@_SEEN * @NAME@_CHANNELS;
    int i, c;
    for (i = 0; i < @NAME@_SEEN; i++, gain += @NAME@_CHANNELS)
        for (c = 0; c < @NAME@_CHANNELS; c++) z[i] += gain[c] * (x[c] - next[@NAME@_FED + c]);
}

/* An entry of the covariance of the memory at the age of a first row, while nothing was missing. */
static inline @name@_real @name@_of_start(int age, int at)
{
    const @name@_real *root = @name@_roots + age * @NAME@_SEEN * @NAME@_COLUMNS;
    const @name@_real *row = root + at / @NAME@_SEEN * @NAME@_COLUMNS;
    const @name@_real *column = root + at % @NAME@_SEEN * @NAME@_COLUMNS;
    @name@_real sum = 0;
    int c;
    for (c = 0; c < @NAME@_COLUMNS; c++) sum += row[c] * column[c];
    return sum;
}
#endif

/* The result of a step. */
static inline void @name@_advance(const @name@_real *z, @name@_real *next)
{
    @name@_apply(@name@_weights, @NAME@_NEXT, z, next);
    @name@_box(next);
}

/* Convert a standardised row to the units of the recordings. */
static inline void @name@_undo(const @name@_real *row, @name@_real *out)
{
    int i;
    for (i = 0; i < @NAME@_CHANNELS; i++) out[i] = row[i] * @name@_scale[i] + @name@_mean[i];
}

#if @NAME@_INPUTS > 0
/* Tell whether all numbers are finite. */
static inline int @name@_finite(const @name@_real *values, int count)
{
    int i;
    for (i = 0; i < count; i++)
        if (!isfinite(values[i])) return 0;
    return 1;
}

/* Write inputs into z, standardised. */
static inline void @name@_control(@name@_real *z, const @name@_real *u, const @name@_real *next_u)
{
    int i;
    for (i = 0; i < @NAME@_INPUTS; i++) {
        z[@NAME@_SEEN + i] = (u[i] - @name@_input_mean[i]) / @name@_input_scale[i];
#if @NAME@_FEEDTHROUGH
        z[@NAME@_SEEN + @NAME@_INPUTS + i] = (next_u[i] - @name@_input_mean[i]) / @name@_input_scale[i];
#endif
    }
    (void)next_u;
}
#endif

/* Condition a Gaussian on the observed entries of a row, one after the other; return their log-likelihood.
   The row is at coordinate `first` of `dim`. The expected row may have any value where it is not observed. */
static inline @name@_real @name@_condition(@name@_real *cov, int dim, @name@_real *mean, int first, const @name@_real *x)
{
    @name@_real nats = 0;
    int c, i, j;
    for (c = 0; c < @NAME@_CHANNELS; c++) {
        const int at = first + c;
        @name@_real *row = cov + at * dim, variance = row[at], error = x[c] - mean[at];
        if (isnan(x[c])) continue;
        for (i = 0; i < dim; i++) {
            const @name@_real gain = row[i] / variance;
            if (i == at || !(variance > 0) || gain == 0) continue;
            mean[i] += gain * error;
            for (j = 0; j < dim; j++) cov[i * dim + j] -= gain * row[j];
        }
        for (i = 0; i < dim; i++) row[i] = cov[i * dim + at] = 0;
        mean[at] = x[c];
        nats -= (error * error / variance + @NAME@_LOG((@name@_real)6.283185307179586477 * variance)) / 2;
    }
    return nats;
}

#ifndef @NAME@_NO_GAPS
#if @NAME@_EXACT
/* Correct feedback, row and last rows, z, by the observed entries of a row. */
static inline void @name@_correct(@name@_state *s, const @name@_real *x)
{
    const @name@_real *noise = s->started ? @name@_noise : @name@_first_noise;
    const int n = @NAME@_CHANNELS, dim = @NAME@_SEEN;
    @name@_real *cov = s->covariance;
    int i, j;
#if @NAME@_OPENING
    if (!s->in_doubt && s->started < @NAME@_OPENING) /* the start is in doubt as well */
        for (i = 0; i < dim * dim; i++) cov[i] = @name@_of_start(s->started, i);
    else
#endif
        for (i = 0; !s->in_doubt && i < dim * dim; i++) cov[i] = 0;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) cov[(@NAME@_FED + i) * dim + @NAME@_FED + j] += noise[i * n + j];
    @name@_condition(cov, dim, s->z, @NAME@_FED, x);
#if !@NAME@_OPENING
    for (i = @NAME@_FED; !s->started && i < dim; i++) /* all last rows equal the first one */
        for (j = @NAME@_FED; j < dim; j++)
            cov[i * dim + j] = cov[(@NAME@_FED + (i - @NAME@_FED) % n) * dim + @NAME@_FED + (j - @NAME@_FED) % n];
#endif
    s->in_doubt = 1;
}

/* Multiply each row of the covariance by the derivative of a step, and transpose the matrix. */
static inline void @name@_half_move(@name@_real *cov, const @name@_real *slope)
{
    const int dim = @NAME@_SEEN;
    int i, j, k;
    for (i = 0; i < dim; i++) {
        @name@_real *row = cov + i * dim, next[@NAME@_NEXT];
        for (k = 0; k < @NAME@_NEXT; k++) next[k] = 0;
        @name@_add(next, @NAME@_NEXT, slope, row, dim);
        @name@_shift(row, next);
    }
    for (i = 0; i < dim; i++)
        for (j = 0; j < i; j++) {
            const @name@_real kept = cov[i * dim + j];
            cov[i * dim + j] = cov[j * dim + i];
            cov[j * dim + i] = kept;
        }
}

/* The derivative of a step by feedback and last rows: a row of its weights for each of them. */
static inline const @name@_real *@name@_slope(@name@_state *s)
{
#if @NAME@_WAVES > 0
    const @name@_real *cosines = @name@_weights + (1 + @NAME@_RAW) * @NAME@_NEXT, *sines;
    int i, j, k;
    for (i = 0; i < @NAME@_SLOPES; i++) s->slope[i] = @NAME@_RAW ? @name@_weights[@NAME@_NEXT + i] : 0;
    for (j = 0; j < @NAME@_WAVES; j++, cosines += @NAME@_NEXT) {
        const @name@_real angle = @name@_angle(s->z, j), c = @NAME@_COS(angle), minus = -@NAME@_SIN(angle);
        sines = cosines + @NAME@_WAVES * @NAME@_NEXT;
        for (i = 0; i < @NAME@_SEEN; i++) {
            const @name@_real along = @name@_directions[j * @NAME@_WIDTH + i];
            for (k = 0; k < @NAME@_NEXT; k++)
                s->slope[i * @NAME@_NEXT + k] += along * (c * sines[k] + minus * cosines[k]);
        }
    }
    return s->slope;
#else
    (void)s;
    return @name@_weights + @NAME@_NEXT;
#endif
}

/* Take the covariance through a step; it ends when all its variances are negligible. */
static inline void @name@_move(@name@_state *s)
{
    const @name@_real *slope = @name@_slope(s);
    const int dim = @NAME@_SEEN;
    @name@_real *cov = s->covariance;
    int i, j;
    @name@_half_move(cov, slope);
    @name@_half_move(cov, slope);
    s->in_doubt = 0;
    for (i = 0; i < dim; i++) {
        for (j = 0; j < i; j++) cov[i * dim + j] = cov[j * dim + i] = (cov[i * dim + j] + cov[j * dim + i]) / 2;
        if (cov[i * dim + i] > (@name@_real)@NAME@_NEGLIGIBLE) s->in_doubt = 1;
    }
}
#else
/* Fill missing entries from the observed ones. */
static inline void @name@_correct(@name@_state *s, const @name@_real *x)
{
    @name@_real *row = s->z + @NAME@_FED;
    int i;
    for (i = 0; i < @NAME@_CHANNELS * @NAME@_CHANNELS; i++) s->covariance[i] = @name@_noise[i];
    @name@_condition(s->covariance, @NAME@_CHANNELS, row, 0, x);
#if @NAME@_SPAN
    for (i = 0; i < @NAME@_CHANNELS; i++) {
        if (isnan(x[i]) && row[i] < @name@_least[i]) row[i] = @name@_least[i];
        if (isnan(x[i]) && row[i] > @name@_most[i]) row[i] = @name@_most[i];
    }
#endif
}
#endif
#endif

/* Start a stream. */
static inline void @name@_init(@name@_state *s)
{
    int i;
    for (i = 0; i < @NAME@_WIDTH; i++) s->z[i] = 0;
#if @NAME@_OPENING && @NAME@_SEEN > @NAME@_NEXT
    for (i = @NAME@_NEXT; i < @NAME@_SEEN; i++) s->z[i - @NAME@_CHANNELS] = @name@_older[i - @NAME@_NEXT];
#endif
    for (i = 0; i < @NAME@_NEXT; i++) s->next[i] = @name@_first[i];
    s->started = s->age = s->unseen = s->in_doubt = 0;
}

/* Take a row: the observations x, NAN where missing@inputs_said@. */
static inline int @name@_step(@name@_state *s, const @name@_real *x@parameters@)
{
    @name@_real row[@NAME@_CHANNELS];
    int i, missing = 0;
    for (i = 0; i < @NAME@_CHANNELS; i++) {
        if (isinf(x[i])) return -1;
        missing += isnan(x[i]) != 0;
        row[i] = (x[i] - @name@_mean[i]) / @name@_scale[i];
    }
#if @NAME@_INPUTS > 0
    if (!@name@_finite(u, @NAME@_INPUTS) || !@name@_finite(@next_u@, @NAME@_INPUTS)) return -1;
#endif
#ifdef @NAME@_NO_GAPS
    if (missing) return -1;
#endif
    @name@_shift(s->z, s->next);
#if @NAME@_OPENING
    if (s->started < @NAME@_OPENING && !missing && !s->in_doubt) @name@_open(s->z, s->started, s->next, row);
#endif
#ifndef @NAME@_NO_GAPS
    if (missing || s->in_doubt) @name@_correct(s, row);
#endif
    for (i = 0; i < @NAME@_CHANNELS; i++)
        if (!isnan(row[i])) s->z[@NAME@_FED + i] = row[i];
    @name@_box(s->z);
    if (!s->started) @name@_repeat(s->z);
#if @NAME@_INPUTS > 0
    @name@_control(s->z, u, @next_u@);
#endif
    @name@_advance(s->z, s->next);
#if @NAME@_EXACT && !defined(@NAME@_NO_GAPS)
    if (s->in_doubt) @name@_move(s);
#endif
    if (s->started <= @NAME@_OPENING) s->started++;
    if ((s->age || missing < @NAME@_CHANNELS) && s->age < @NAME@_AGES) s->age++;
    if (missing < @NAME@_CHANNELS) s->unseen = 0;
    else if (s->unseen < @NAME@_HORIZONS - 1) s->unseen++;
    return 0;
}

/* Predict the row `horizon` steps ahead: 1 is the row that comes next@horizons_said@. */
static inline int @name@_predict(const @name@_state *s, int horizon, @name@_real *out)
{
    @name@_real z[@NAME@_WIDTH], next[@NAME@_NEXT];
    int i, started = s->started, block = (horizon < @NAME@_WINDOW ? horizon : @NAME@_WINDOW) - 2;
    if (horizon < 1 || (@NAME@_INPUTS > 0 && horizon > @NAME@_WINDOW)) return -1;
    for (i = 0; i < @NAME@_WIDTH; i++) z[i] = s->z[i];
    for (i = 0; i < @NAME@_NEXT; i++) next[i] = s->next[i];
    for (; horizon > @NAME@_WINDOW; horizon--, started = 1) { /* beyond the window, each row comes as expected */
        @name@_shift(z, next);
        if (!started) @name@_repeat(z);
        @name@_advance(z, next);
    }
    if (block < 0) {
        @name@_undo(next + @NAME@_FED, out);
        return 0;
    }
#if @NAME@_WINDOW > 1
    if (!started) {
        @name@_undo(@name@_first_rows + block * @NAME@_CHANNELS, out);
        return 0;
    }
    @name@_apply(@name@_read[block], @NAME@_CHANNELS, z, out);
    @name@_undo(out, out);
#endif
    return 0;
}

#if @NAME@_INPUTS > 0
/* Predict the row `horizon` steps ahead, with the known inputs of the next `horizon` rows, one row after the other. */
static inline int @name@_predict_given(const @name@_state *s, int horizon, const @name@_real *inputs, @name@_real *out)
{
    @name@_real z[@NAME@_WIDTH], next[@NAME@_NEXT];
    int i, started = s->started;
    if (horizon < 1 || !@name@_finite(inputs, horizon * @NAME@_INPUTS)) return -1;
    for (i = 0; i < @NAME@_WIDTH; i++) z[i] = s->z[i];
    for (i = 0; i < @NAME@_NEXT; i++) next[i] = s->next[i];
#if @NAME@_FEEDTHROUGH
    if (started) { /* the last step again, with the inputs that are now known */
        for (i = 0; i < @NAME@_INPUTS; i++)
            z[@NAME@_SEEN + @NAME@_INPUTS + i] = (inputs[i] - @name@_input_mean[i]) / @name@_input_scale[i];
        @name@_advance(z, next);
    }
#endif
    for (; horizon > 1; horizon--, inputs += @NAME@_INPUTS, started = 1) {
        @name@_shift(z, next);
        if (!started) @name@_repeat(z);
        @name@_control(z, inputs, inputs + @NAME@_INPUTS);
        @name@_advance(z, next);
    }
    @name@_undo(next + @NAME@_FED, out);
    return 0;
}
#endif

#if @NAME@_LIKELIHOOD
#if @NAME@_EXACT && !defined(@NAME@_NO_GAPS)
/* An entry of the covariance, without that of a start that lost no entry: variances by age hold it. */
static inline @name@_real @name@_beyond_start(const @name@_state *s, int at)
{
#if @NAME@_OPENING
    if (s->age < @NAME@_OPENING && s->age == s->started) /* a stream that was observed late has more doubt than its start */
        return s->covariance[at] - @name@_of_start(s->age, at);
#endif
    return s->covariance[at];
}
#endif

/* The log-likelihood of a row before it is taken, in nats and the units of the recordings; 0 if nothing was observed.
   It is low for rows unlike the training data. Entries may be NAN, even with @NAME@_NO_GAPS. */
static inline @name@_real @name@_log_likelihood(const @name@_state *s, const @name@_real *x)
{
    const int n = @NAME@_CHANNELS;
    const @name@_real *variance = @name@_variance + (s->age * @NAME@_HORIZONS + s->unseen) * n;
    @name@_real covariance[@NAME@_CHANNELS * @NAME@_CHANNELS], row[@NAME@_CHANNELS], mean[@NAME@_CHANNELS], nats = 0;
    int i, j;
    for (i = 0; i < n; i++) {
        const @name@_real away = ((x[i] - @name@_mean[i]) / @name@_scale[i] - @name@_place[i]) * @name@_strictness[i];
        if (!isnan(away)) nats -= away * away / 2; /* a channel that was constant in training has moved */
        row[i] = @name@_still[i] ? (@name@_real)NAN : (x[i] - @name@_mean[i]) / @name@_scale[i];
        mean[i] = s->next[@NAME@_FED + i];
        if (!isnan(row[i])) nats -= @NAME@_LOG(@name@_scale[i]);
        for (j = 0; j < n; j++) {
            covariance[i * n + j] = @name@_correlation[i * n + j] * @NAME@_SQRT(variance[i] * variance[j]);
#if @NAME@_EXACT && !defined(@NAME@_NO_GAPS)
            if (s->in_doubt)
                covariance[i * n + j] += @name@_widened[i] * @name@_widened[j]
                    * @name@_beyond_start(s, (@NAME@_FED + i) * @NAME@_SEEN + @NAME@_FED + j);
#endif
#if @NAME@_FIRST_DIFFERS
            if (!s->age) covariance[i * n + j] = @name@_first_covariance[i * n + j];
#endif
        }
    }
    nats += @name@_condition(covariance, n, mean, 0, row);
    return isnan(nats) ? -(@name@_real)INFINITY : nats;
}
#endif

#endif
