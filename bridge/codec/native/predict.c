/* Predict messages in one pass over their bytes, for what nearly all of them hold: dense tensors of fixed width.
 *
 * Everything else, and whatever is malformed, is left to the plain code, which knows the rules: a tensor that is not
 * understood here is handed over as its bytes, a message as None.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define MAX_RANK 8
#define MAX_INPUTS 64

enum { VARINT = 0, LEN = 2 };
enum { SPEC = 1 << 3 | LEN, INPUTS = 2 << 3 | LEN, KEY = 1 << 3 | LEN, VALUE = 2 << 3 | LEN };
enum { DTYPE = 1 << 3 | VARINT, SHAPE = 2 << 3 | LEN, CONTENT = 4 << 3 | LEN, DIM = 2 << 3 | LEN };
enum { OUTPUTS = 1 << 3 | LEN };

typedef struct {
    const uint8_t *at, *end;
} Bytes;

typedef struct {
    uint64_t dtype;
    int64_t sizes[MAX_RANK];
    Py_ssize_t rank;
    Bytes values;
} Dense;

/* The width of an element in memory and the field of packed values, for types whose packed values are their memory. */
static int fixed_type(uint64_t dtype, Py_ssize_t *width, uint8_t *field) {
    switch (dtype) {
    case 1:
        *width = 4, *field = 5;
        return 1;
    case 2:
        *width = 8, *field = 6;
        return 1;
    case 8:
        *width = 8, *field = 9;
        return 1;
    case 18:
        *width = 16, *field = 12;
        return 1;
    }
    return 0;
}

/* A varint of at most five bytes: lengths, tags and small numbers. 0 where there is none. */
static int number(Bytes *bytes, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 35 && bytes->at < bytes->end; shift += 7) {
        uint8_t byte = *bytes->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 1;
    }
    return 0;
}

static int piece(Bytes *bytes, Bytes *inner) {
    uint64_t size;
    if (!number(bytes, &size) || size > (uint64_t)(bytes->end - bytes->at))
        return 0;
    inner->at = bytes->at;
    inner->end = bytes->at += size;
    return 1;
}

static int dimension(Bytes bytes, int64_t *size) {
    uint64_t tag, value;
    *size = 0;
    while (bytes.at < bytes.end) {
        if (!number(&bytes, &tag) || tag != (1 << 3 | VARINT) || !number(&bytes, &value))
            return 0;
        *size = (int64_t)value;
    }
    return 1;
}

static int shape(Bytes bytes, Dense *dense) {
    uint64_t tag;
    Bytes inner;
    while (bytes.at < bytes.end) {
        if (!number(&bytes, &tag) || tag != DIM || dense->rank == MAX_RANK || !piece(&bytes, &inner) ||
            !dimension(inner, &dense->sizes[dense->rank++]))
            return 0;
    }
    return 1;
}

/* Whether the TensorProto in `bytes` has a type, a shape, and its values once, exactly as many as the shape says. */
static int dense_tensor(Bytes bytes, Dense *dense) {
    uint64_t tag, count = 1;
    Bytes inner;
    Py_ssize_t width;
    uint8_t field;
    int shapes = 0, values = 0, content = 0;
    memset(dense, 0, sizeof *dense);
    while (bytes.at < bytes.end) {
        if (!number(&bytes, &tag))
            return 0;
        if (tag == DTYPE) {
            if (!number(&bytes, &dense->dtype))
                return 0;
        } else if ((tag & 7) == LEN && piece(&bytes, &inner)) {
            if (tag == SHAPE) {
                if (shapes++ || !shape(inner, dense))
                    return 0;
            } else {
                if (values++)
                    return 0;
                content = tag == CONTENT;
                field = (uint8_t)(tag >> 3);
                if (tag > 0x7f)
                    return 0;
                dense->values = inner;
                if (!content && !(field == 5 || field == 6 || field == 9 || field == 12))
                    return 0;
            }
        } else {
            return 0;
        }
    }
    uint8_t typed;
    if (!values || !fixed_type(dense->dtype, &width, &typed) || (!content && field != typed))
        return 0;
    for (Py_ssize_t index = 0; index < dense->rank; index++) {
        if (dense->sizes[index] && count > (1ull << 40) / (uint64_t)dense->sizes[index])
            return 0;
        count *= (uint64_t)dense->sizes[index];
    }
    return count && count * (uint64_t)width == (uint64_t)(dense->values.end - dense->values.at);
}

static PyObject *text(Bytes bytes) {
    return PyUnicode_DecodeUTF8((const char *)bytes.at, bytes.end - bytes.at, NULL);
}

static PyObject *view(PyObject *whole, const uint8_t *start, Bytes bytes) {
    PyObject *from = PyLong_FromSsize_t(bytes.at - start), *to = PyLong_FromSsize_t(bytes.end - start);
    PyObject *slice = from && to ? PySlice_New(from, to, NULL) : NULL;
    PyObject *result = slice ? PyObject_GetItem(whole, slice) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    return result;
}

static PyObject *make(PyTypeObject *type, PyObject *items) {
    PyObject *arguments = items ? PyTuple_Pack(1, items) : NULL;
    PyObject *result = arguments ? PyTuple_Type.tp_new(type, arguments, NULL) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(items);
    return result;
}

static PyObject *tensor(PyObject *type, PyObject *whole, const uint8_t *start, Bytes bytes) {
    Dense dense;
    if (!dense_tensor(bytes, &dense))
        return view(whole, start, bytes);
    PyObject *sizes = PyTuple_New(dense.rank);
    for (Py_ssize_t index = 0; sizes && index < dense.rank; index++) {
        PyObject *size = PyLong_FromLongLong(dense.sizes[index]);
        if (!size)
            Py_CLEAR(sizes);
        else
            PyTuple_SET_ITEM(sizes, index, size);
    }
    PyObject *data = sizes ? view(whole, start, dense.values) : NULL;
    PyObject *dtype = data ? PyLong_FromUnsignedLongLong(dense.dtype) : NULL;
    PyObject *result = dtype ? make((PyTypeObject *)type, PyTuple_Pack(3, dtype, sizes, data)) : NULL;
    Py_XDECREF(sizes);
    Py_XDECREF(data);
    Py_XDECREF(dtype);
    return result;
}

/* Adds one entry of the map of inputs; 0 where it is not understood, -1 with an exception. */
static int add_input(PyObject *inputs, PyObject *type, PyObject *whole, const uint8_t *start, Bytes bytes) {
    uint64_t tag;
    Bytes key = {start, start}, value = {start, start};
    int keys = 0, values = 0;
    while (bytes.at < bytes.end) {
        if (!number(&bytes, &tag))
            return 0;
        if (tag == KEY && !keys++) {
            if (!piece(&bytes, &key))
                return 0;
        } else if (tag == VALUE && !values++) {
            if (!piece(&bytes, &value))
                return 0;
        } else {
            return 0;
        }
    }
    PyObject *alias = text(key);
    if (!alias)
        return -1;
    PyObject *item = tensor(type, whole, start, value);
    int failed = !item || PyDict_SetItem(inputs, alias, item) < 0;
    Py_DECREF(alias);
    Py_XDECREF(item);
    return failed ? -1 : 1;
}

PyDoc_STRVAR(decode_doc, "decode(data, whole, tensor): (model_spec, inputs), or None where the message holds more.\n\n"
                         "`data` are the bytes of a PredictRequest and `whole` a view of them, `tensor` is the type "
                         "of decoded tensors. The model_spec is a view of its bytes.");

static PyObject *decode(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyBytes_Check(args[0]) || !PyType_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "decode(data, whole, tensor)");
        return NULL;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    Bytes bytes = {start, start + PyBytes_GET_SIZE(args[0])}, inner, spec = {NULL, NULL};
    PyObject *inputs = PyDict_New();
    int understood = inputs ? 1 : -1;
    uint64_t tag;
    while (understood > 0 && bytes.at < bytes.end) {
        if (!number(&bytes, &tag) || !(tag == SPEC || tag == INPUTS) || !piece(&bytes, &inner) ||
            (tag == SPEC && spec.at))
            understood = 0;
        else if (tag == SPEC)
            spec = inner;
        else
            understood = add_input(inputs, args[2], args[1], start, inner);
    }
    if (understood < 0 && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        understood = 0;
    }
    PyObject *result = NULL;
    if (understood > 0 && spec.at) {
        PyObject *piece_of = PyBytes_FromStringAndSize((const char *)spec.at, spec.end - spec.at);
        result = piece_of ? PyTuple_Pack(2, piece_of, inputs) : NULL;
        Py_XDECREF(piece_of);
    } else if (understood >= 0) {
        result = Py_NewRef(Py_None);
    }
    Py_XDECREF(inputs);
    return result;
}

/* --- responses --------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *alias;
    Py_ssize_t alias_size, shape_size, tensor_size, entry_size;
    PyObject *sizes;
    Py_buffer data;
    uint8_t dtype, field;
} Output;

static Py_ssize_t varint_size(uint64_t value) {
    Py_ssize_t size = 1;
    while (value >>= 7)
        size++;
    return size;
}

static uint8_t *put(uint8_t *at, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)value | 0x80;
    *at++ = (uint8_t)value;
    return at;
}

/* The bytes of one Dim with its tag. */
static Py_ssize_t dim_size(uint64_t size) {
    Py_ssize_t inner = size ? 1 + varint_size(size) : 0;
    return 2 + inner;
}

/* Reads a pair (alias, tensor). 0 where it is left to others, -1 with an exception; the buffer is held where 1. */
static int read_output(PyObject *pair, int as_content, Output *output) {
    PyObject *tuple;
    Py_ssize_t width;
    unsigned long long dtype, count = 1;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyUnicode_Check(PyTuple_GET_ITEM(pair, 0)))
        return 0;
    tuple = PyTuple_GET_ITEM(pair, 1);
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 3)
        return 0;
    dtype = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(tuple, 0));
    output->sizes = PyTuple_GET_ITEM(tuple, 1);
    if (PyErr_Occurred())
        return -1;
    if (!fixed_type(dtype, &width, &output->field) || !PyTuple_Check(output->sizes))
        return 0;
    if (as_content)
        output->field = 4;
    output->dtype = (uint8_t)dtype;
    output->shape_size = 0;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(output->sizes); index++) {
        long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(output->sizes, index));
        if (size == -1 && PyErr_Occurred())
            return -1;
        if (size <= 0 || count > (1ull << 40) / (unsigned long long)size)
            return 0;
        count *= (unsigned long long)size;
        output->shape_size += dim_size((uint64_t)size);
    }
    output->alias = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(pair, 0), &output->alias_size);
    if (!output->alias || PyObject_GetBuffer(PyTuple_GET_ITEM(tuple, 2), &output->data, PyBUF_SIMPLE) < 0)
        return -1;
    if ((unsigned long long)output->data.len != count * (unsigned long long)width) {
        PyBuffer_Release(&output->data);
        return 0;
    }
    output->tensor_size = 2 + 1 + varint_size((uint64_t)output->shape_size) + output->shape_size + 1 +
                          varint_size((uint64_t)output->data.len) + output->data.len;
    output->entry_size = 1 + varint_size((uint64_t)output->alias_size) + output->alias_size + 1 +
                         varint_size((uint64_t)output->tensor_size) + output->tensor_size;
    return 1;
}

static uint8_t *write_output(uint8_t *at, const Output *output) {
    at = put(put(at, OUTPUTS), (uint64_t)output->entry_size);
    at = put(put(at, KEY), (uint64_t)output->alias_size);
    memcpy(at, output->alias, (size_t)output->alias_size);
    at = put(put(at + output->alias_size, VALUE), (uint64_t)output->tensor_size);
    at = put(put(at, DTYPE), output->dtype);
    at = put(put(at, SHAPE), (uint64_t)output->shape_size);
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(output->sizes); index++) {
        uint64_t size = (uint64_t)PyLong_AsLongLong(PyTuple_GET_ITEM(output->sizes, index));
        at = put(put(at, DIM), (uint64_t)(dim_size(size) - 2));
        at = put(put(at, 1 << 3 | VARINT), size);
    }
    at = put(put(at, (uint64_t)output->field << 3 | LEN), (uint64_t)output->data.len);
    memcpy(at, output->data.buf, (size_t)output->data.len);
    return at + output->data.len;
}

PyDoc_STRVAR(encode_doc, "encode(outputs, as_content, end): a serialized PredictResponse, or None where `outputs` hold "
                         "other tensors.\n\n`outputs` are a list of pairs of alias and tensor, `end` is put behind.");

static PyObject *encode(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Output outputs[MAX_INPUTS];
    Py_ssize_t known = 0, total;
    int understood = 1;
    PyObject *result = NULL;
    if (count != 3 || !PyList_Check(args[0]) || !PyBytes_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "encode(outputs, as_content, end)");
        return NULL;
    }
    total = PyBytes_GET_SIZE(args[2]);
    if (PyList_GET_SIZE(args[0]) > MAX_INPUTS)
        return Py_NewRef(Py_None);
    for (; known < PyList_GET_SIZE(args[0]); known++) {
        understood = read_output(PyList_GET_ITEM(args[0], known), args[1] == Py_True, &outputs[known]);
        if (understood <= 0)
            break;
        total += 1 + varint_size((uint64_t)outputs[known].entry_size) + outputs[known].entry_size;
    }
    if (understood > 0 && (result = PyBytes_FromStringAndSize(NULL, total))) {
        uint8_t *at = (uint8_t *)PyBytes_AS_STRING(result);
        for (Py_ssize_t index = 0; index < known; index++)
            at = write_output(at, &outputs[index]);
        memcpy(at, PyBytes_AS_STRING(args[2]), (size_t)PyBytes_GET_SIZE(args[2]));
    }
    for (Py_ssize_t index = 0; index < known; index++)
        PyBuffer_Release(&outputs[index].data);
    return understood ? result : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"decode", (PyCFunction)(void (*)(void))decode, METH_FASTCALL, decode_doc},
    {"encode", (PyCFunction)(void (*)(void))encode, METH_FASTCALL, encode_doc},
    {NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_predict", "Predict messages.", 0, functions};

PyMODINIT_FUNC PyInit__predict(void) {
    return PyModule_Create(&module);
}
