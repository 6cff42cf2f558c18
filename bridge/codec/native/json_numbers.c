/* Numbers between arrays in memory and JSON text, without Python: callers release the interpreter's lock.

   Printing follows the rule of TF Serving's REST API: six significant digits if they parse back to the same value, else
   9 (float) or 17 (double), and ".0" unless there is a point or an exponent. Digits are found by exact integer
   arithmetic; what does not fit into 128 bits is left to the C library.

   Parsing yields the doubles of rapidjson's default precision, which the exact path of the bridge uses: a significand
   that is cut after 53 bits or 17 digits, then one multiplication or division by a power of ten. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

enum kind { FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT32, UINT64, BOOL };

enum { MAX_RANK = 254, LARGEST_POWER_OF_5 = 27, LARGEST_DIVISOR = 19 };

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum { EXACT_POWERS = 22 };

static const uint64_t POWERS_OF_5[LARGEST_POWER_OF_5 + 1] = {
    1u, 5u, 25u, 125u,
    625u, 3125u, 15625u, 78125u,
    390625u, 1953125u, 9765625u, 48828125u,
    244140625u, 1220703125u, 6103515625u, 30517578125u,
    152587890625u, 762939453125u, 3814697265625u, 19073486328125u,
    95367431640625u, 476837158203125u, 2384185791015625u, 11920928955078125u,
    59604644775390625u, 298023223876953125u, 1490116119384765625u, 7450580596923828125u};

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657"
    "585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* 10^exponent for exponents up to 19. */
static uint64_t power_of_10(int exponent) { return POWERS_OF_5[exponent] << exponent; }

/* significand * 2^binary * 10^decimal, rounded half to even; 0 where that takes more than 128 bits. */
static uint64_t scaled(uint64_t significand, int binary, int decimal) {
    u128 value, rest, half;
    if (decimal >= 0) {
        if (decimal > LARGEST_POWER_OF_5) return 0;
        value = (u128)significand * POWERS_OF_5[decimal];
        int shift = binary + decimal;
        if (shift >= 0) return shift < 64 ? (uint64_t)(value << shift) : 0;
        if (shift <= -128) return 0;
        half = (u128)1 << (-shift - 1);
        rest = value & (2 * half - 1);
        value >>= -shift;
    } else {
        if (decimal < -LARGEST_DIVISOR) return 0;
        u128 divisor = power_of_10(-decimal);
        if (binary > 70 || binary < -60) return 0;
        u128 dividend = significand;
        if (binary >= 0)
            dividend <<= binary;
        else
            divisor <<= -binary;
        value = dividend / divisor;
        rest = 2 * (dividend % divisor);
        half = divisor;
    }
    if (rest > half || (rest == half && (value & 1))) value++;
    return (uint64_t)value;
}

/* floor(log10(2^power)): the decimal exponent of what lies between 2^power and its double, or one less than that. */
static int least_exponent(int power) { return (int)(((int64_t)power * 315653) >> 20); }

/* The decimal digits of a finite positive value, rounded to `precision`, and the exponent of the first; 0 if too hard. */
static uint64_t decimal_digits(double value, int precision, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int binary = (int)(bits >> 52) - 1075;
    if (binary == -1075) return 0; /* subnormal */
    uint64_t significand = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    int guess = least_exponent(binary + 52);
    uint64_t limit = power_of_10(precision);
    uint64_t digits = scaled(significand, binary, precision - 1 - guess);
    if (digits >= limit) digits = scaled(significand, binary, precision - 1 - ++guess);
    *exponent = guess;
    return digits >= limit / 10 && digits < limit ? digits : 0;
}

static char *write_unsigned(char *out, uint64_t value) {
    char text[20];
    int start = sizeof text;
    for (; value >= 100; value /= 100) memcpy(text + (start -= 2), PAIRS + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(text + (start -= 2), PAIRS + 2 * value, 2);
    else
        text[--start] = (char)('0' + value);
    memcpy(out, text + start, sizeof text - (size_t)start);
    return out + sizeof text - start;
}

static char *write_signed(char *out, int64_t value) {
    if (value >= 0) return write_unsigned(out, (uint64_t)value);
    *out++ = '-';
    return write_unsigned(out, 0 - (uint64_t)value);
}

/* What printf's %g makes of these digits. */
static char *write_digits(char *out, uint64_t digits, int precision, int exponent) {
    int count = precision;
    for (; count > 1 && digits % 10 == 0; count--) digits /= 10;
    char text[20];
    write_unsigned(text, digits);
    if (exponent < -4 || exponent >= precision) {
        *out++ = text[0];
        if (count > 1) *out++ = '.';
        memcpy(out, text + 1, (size_t)(count - 1));
        out += count - 1;
        *out++ = 'e';
        *out++ = exponent < 0 ? '-' : '+';
        int size = abs(exponent);
        if (size < 10) *out++ = '0';
        return write_unsigned(out, (uint64_t)size);
    }
    if (exponent < 0) {
        *out++ = '0';
        *out++ = '.';
        for (int zeros = -1 - exponent; zeros; zeros--) *out++ = '0';
        memcpy(out, text, (size_t)count);
        return out + count;
    }
    int whole = exponent + 1;
    if (count <= whole) {
        memcpy(out, text, (size_t)count);
        memset(out + count, '0', (size_t)(whole - count));
        return out + whole;
    }
    memcpy(out, text, (size_t)whole);
    out[whole] = '.';
    memcpy(out + whole + 1, text + whole, (size_t)(count - whole));
    return out + count + 1;
}

/* The double nearest to digits * 10^exponent, 0 if that takes more than one exact operation. */
static double nearest(uint64_t digits, int exponent) {
    if (exponent < -EXACT_POWERS || exponent > EXACT_POWERS) return 0;
    return exponent < 0 ? (double)digits / POWERS[-exponent] : (double)digits * POWERS[exponent];
}

static int same(double parsed, double value, int is_float) {
    return is_float ? (float)parsed == (float)value : parsed == value;
}

/* The text by the C library alone. */
static char *write_hard(char *out, double value, int is_float) {
    int length = snprintf(out, 32, "%.6g", value);
    if (!same(strtod(out, NULL), value, is_float)) length = snprintf(out, 32, is_float ? "%.9g" : "%.17g", value);
    return out + length;
}

/* The nine rounded digits of a float, the exponent of the first, and whether six of them are plainly too few for it;
   0 where this does not find them. For most floats it takes one multiplication. */
static uint64_t nine_digits(float value, int *exponent, int *needed) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int binary = (int)(bits >> 23) - 150;
    if (binary == -150) return 0; /* subnormal */
    uint64_t significand = (bits & 0x7FFFFF) | 0x800000;
    int guess = least_exponent(binary + 23);
    if (guess > 8 || guess < -18) return 0;
    uint64_t digits = scaled(significand, binary, 8 - guess);
    if (digits >= 1000000000) digits = scaled(significand, binary, 8 - ++guess);
    if (digits < 100000000 || digits >= 1000000000) return 0;
    *exponent = guess;
    /* Half the distance to the next float is at most 2^-24 of the value; six digits differ from it by `gap` or more, up
       to the rounding. */
    uint64_t low = digits % 1000, gap = low < 500 ? low : 1000 - low;
    *needed = gap > (digits >> 24) + 2;
    return digits;
}

static char *write_positive(char *out, double value, int is_float) {
    int exponent = 0, needed;
    if (is_float) {
        uint64_t nine = nine_digits((float)value, &exponent, &needed);
        if (nine && needed) return write_digits(out, nine, 9, exponent);
    }
    uint64_t digits = decimal_digits(value, 6, &exponent);
    double parsed = nearest(digits, exponent - 5);
    if (digits == 0 || parsed == 0) return write_hard(out, value, is_float);
    if (same(parsed, value, is_float)) return write_digits(out, digits, 6, exponent);
    int precision = is_float ? 9 : 17;
    digits = decimal_digits(value, precision, &exponent);
    if (digits == 0) return write_hard(out, value, is_float);
    return write_digits(out, digits, precision, exponent);
}

static char *write_real(char *out, double value, int is_float) {
    if (isnan(value)) return (char *)memcpy(out, "NaN", 3) + 3;
    if (signbit(value)) *out++ = '-';
    value = fabs(value);
    if (isinf(value)) return (char *)memcpy(out, "Infinity", 8) + 8;
    if (value == 0) return (char *)memcpy(out, "0.0", 3) + 3;
    char *start = out;
    out = write_positive(out, value, is_float);
    for (char *at = start; at < out; at++)
        if (*at == '.' || *at == 'e') return out;
    *out++ = '.';
    *out++ = '0';
    return out;
}

static char *write_value(char *out, const void *values, int64_t index, enum kind kind) {
    switch (kind) {
        case FLOAT32: return write_real(out, ((const float *)values)[index], 1);
        case FLOAT64: return write_real(out, ((const double *)values)[index], 0);
        case INT8: return write_signed(out, ((const int8_t *)values)[index]);
        case INT16: return write_signed(out, ((const int16_t *)values)[index]);
        case INT32: return write_signed(out, ((const int32_t *)values)[index]);
        case INT64: return write_signed(out, ((const int64_t *)values)[index]);
        case UINT8: return write_unsigned(out, ((const uint8_t *)values)[index]);
        case UINT32: return write_unsigned(out, ((const uint32_t *)values)[index]);
        case UINT64: return write_unsigned(out, ((const uint64_t *)values)[index]);
        case BOOL: return ((const uint8_t *)values)[index] ? (char *)memcpy(out, "true", 4) + 4
                                                           : (char *)memcpy(out, "false", 5) + 5;
    }
    return out;
}

/* Print the elements from `begin` up to `end`; the bytes written.

   Before each element but the first of all stands a separator: that of the last level whose period divides the element's
   index. periods[0] is 1, each next one a multiple of the one before. `out` has room for 25 bytes and the longest
   separator per element, and 32 bytes more. */
int64_t json_print(const void *values, int kind, int64_t begin, int64_t end, int levels, const int64_t *periods,
                   const char *const *separators, const int32_t *lengths, char *out) {
    char *start = out;
    int64_t row = levels > 1 ? periods[1] : INT64_MAX, next = begin - begin % row;
    if (next < begin) next += row;
    for (int64_t index = begin; index < end; index++) {
        int level = 0;
        if (index == next) {
            next += row;
            level = 1;
            while (level + 1 < levels && index % periods[level + 1] == 0) level++;
        }
        if (index) {
            memcpy(out, separators[level], (size_t)lengths[level]);
            out += lengths[level];
        }
        out = write_value(out, values, index, (enum kind)kind);
    }
    return out - start;
}

static const char *skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static int is_digit(const char *at, const char *end) { return at < end && *at >= '0' && *at <= '9'; }

static double by_power(double significand, int exponent) {
    if (exponent < -308) return 0;
    if (exponent >= 0 && exponent <= EXACT_POWERS) return significand * POWERS[exponent];
    if (exponent < 0 && exponent >= -EXACT_POWERS) return significand / POWERS[-exponent];
    char text[8];
    snprintf(text, sizeof text, "1e%d", abs(exponent));
    double power = strtod(text, NULL);
    return exponent < 0 ? significand / power : significand * power;
}

/* One number. Integers go to *integer and set *is_integer. NULL for what is no number or needs a closer look. */
static const char *read_number(const char *at, const char *end, int *is_integer, int64_t *integer, double *real) {
    int minus = at < end && *at == '-';
    at += minus;
    if (!is_digit(at, end)) return NULL;
    uint64_t value = 0;
    int digits = 0;
    if (*at == '0')
        at++;
    else
        for (; is_digit(at, end); at++, digits++) {
            /* Integers past 63 bits are rare. */
            if (value >= 922337203685477580u) return NULL;
            value = value * 10 + (uint64_t)(*at - '0');
        }
    *is_integer = at == end || (*at != '.' && *at != 'e' && *at != 'E');
    if (*is_integer) {
        *integer = minus ? -(int64_t)value : (int64_t)value;
        return is_digit(at, end) ? NULL : at;
    }
    /* The first digit of the integer does not count. */
    digits -= digits > 0;
    int exponent = 0;
    double significand = (double)value;
    if (*at == '.') {
        at++;
        if (!is_digit(at, end)) return NULL;
        for (; is_digit(at, end) && value <= 0x1FFFFFFFFFFFFF; at++) {
            value = value * 10 + (uint64_t)(*at - '0');
            exponent--;
            digits += value != 0;
        }
        significand = (double)value;
        for (; is_digit(at, end); at++) {
            if (digits >= 17) continue;
            significand = significand * 10.0 + (*at - '0');
            exponent--;
            digits += significand > 0.0;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        int negative = at < end && *at == '-';
        at += negative || (at < end && *at == '+');
        if (!is_digit(at, end)) return NULL;
        int explicit = 0;
        for (; is_digit(at, end); at++) {
            explicit = explicit * 10 + (*at - '0');
            /* Near the ends of the range the exact path decides. */
            if (explicit > 280) return NULL;
        }
        exponent += negative ? -explicit : explicit;
    }
    if (exponent < -300 || exponent > 280) return NULL;
    *real = by_power(significand, exponent);
    if (minus) *real = -*real;
    return at;
}

/* How many commas text[begin] up to text[size] has. */
int64_t json_commas(const char *text, int64_t begin, int64_t size) {
    int64_t count = 0;
    for (int64_t at = begin; at < size; at++) count += text[at] == ',';
    return count;
}

struct result {
    int64_t end;
    int64_t count;
    int32_t rank;
    int32_t integers;
    int64_t shape[MAX_RANK];
};

/* Read nested lists of numbers, all of one shape and none empty, from text[begin] on.

   `values` has room for `capacity` elements of eight bytes; it gets int64 if every token is an integer, else doubles.
   0 if the lists are anything else. */
int json_parse(const char *text, int64_t begin, int64_t size, void *values, int64_t capacity, struct result *result) {
    const char *at = text + begin, *end = text + size;
    int64_t *integers = values, lengths[MAX_RANK];
    double *reals = values;
    int depth = 0, rank = 0, all_integers = 1;
    int64_t count = 0;
    for (;;) {
        at = skip_space(at, end);
        if (at == end) return 0;
        if (*at == '[') {
            if (depth == MAX_RANK || (rank && depth == rank)) return 0;
            lengths[depth++] = 0;
            at++;
            continue;
        }
        if (rank == 0) {
            rank = depth;
            for (int level = 0; level < rank; level++) result->shape[level] = -1;
        }
        if (depth == 0 || depth != rank || count == capacity) return 0;
        int is_integer;
        int64_t integer;
        double real;
        at = read_number(at, end, &is_integer, &integer, &real);
        if (at == NULL) return 0;
        if (!is_integer && all_integers) {
            for (int64_t index = 0; index < count; index++) reals[index] = (double)integers[index];
            all_integers = 0;
        }
        if (all_integers)
            integers[count++] = integer;
        else
            reals[count++] = is_integer ? (double)integer : real;
        for (;;) {
            lengths[depth - 1]++;
            at = skip_space(at, end);
            if (at == end) return 0;
            if (*at++ == ',') break;
            if (at[-1] != ']') return 0;
            depth--;
            if (result->shape[depth] >= 0 && result->shape[depth] != lengths[depth]) return 0;
            result->shape[depth] = lengths[depth];
            if (depth == 0) {
                result->end = at - text;
                result->count = count;
                result->rank = rank;
                result->integers = all_integers;
                return 1;
            }
        }
    }
}
