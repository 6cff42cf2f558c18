/* One gRPC connection as a state machine on bytes: HTTP/2 by libnghttp2, and gRPC's messages, metadata and statuses.
 *
 * A Session does no input or output of its own. Received bytes go in by receive(), which answers what happened as a
 * list of tuples; what is to be sent comes out as bytes. Calls of one Session come from one thread.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "nghttp2.h"

#define PREFIX 5                          /* bytes before a message: compressed or not, and its length */
#define STREAM_WINDOW (4 << 20)           /* bytes that a call may send before it is read */
#define CONNECTION_WINDOW (16 << 20)      /* bytes that all calls of a connection may send */
#define RECEIVED_FRAME (1 << 20)          /* bytes of a frame that clients may send */
#define VIEWED (8 << 10)                  /* bytes of a frame from which a message is not copied to be sent */
#define SENT_FRAME (256 << 10)            /* bytes of a frame that is sent, where the client takes that much */
#define UNREAD 16                         /* messages of one stream that may wait to be read */
#define FIRST_ALLOCATION ((size_t)6 << 20) /* a length is only believed as the bytes come in */
#define BELIEVED 16                       /* times as many bytes as came in are taken for the rest */
#define APART ((size_t)8 << 20)           /* bytes of a buffer that is a mapping of its own: bridge/memory.py */
#define HUGE_PAGE ((uintptr_t)2 << 20)
#define MAX_CONTINUATIONS 8

enum { UNARY, STREAM, MESSAGE, END, CANCELLED, PONG };

static Nghttp2 lib;
static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;
static PyObject *empty_tuple;

typedef struct Call {
    int32_t id;
    struct Call *previous, *next;
    PyObject *rpc;      /* what the table of methods holds for the path */
    PyObject *entries;  /* the metadata so far, a list */
    PyObject *encoding; /* grpc-encoding, grpc-accept-encoding: str or NULL */
    PyObject *accepts;
    double timeout; /* seconds, negative without a deadline */
    size_t metadata_size;
    unsigned is_post : 1, is_grpc : 1, streaming : 1, opened : 1, dispatched : 1, refused : 1;
    unsigned head_submitted : 1, finished : 1, complete : 1, deferred : 1;
    /* the message that is coming in */
    uint8_t prefix[PREFIX];
    size_t prefix_size;
    PyObject *message;
    size_t size, filled;
    unsigned unread;
    size_t held;
    /* what goes out */
    PyObject *queue; /* a list of pairs (compressed, message) */
    Py_ssize_t sending;
    size_t offset;
    int status;
    PyObject *status_text;
} Call;

typedef struct {
    PyObject_HEAD
    nghttp2_session *session;
    PyObject *unary, *streams;
    PyObject *events;
    Call *calls;
    Py_ssize_t call_count;
    Py_ssize_t max_message;
    size_t max_metadata;
    char small[4096];
    PyObject *large;
    PyObject *pieces;
    size_t out_size;
    int sending;
} Session;

static PyObject *Http2Error;

/* --- output ------------------------------------------------------------------------------------------------------ */

static int append(Session *self, const void *data, size_t size) {
    size_t needed = self->out_size + size;
    if (!self->large && needed <= sizeof self->small) {
        memcpy(self->small + self->out_size, data, size);
        self->out_size = needed;
        return 0;
    }
    if (!self->large) {
        self->large = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 * needed));
        if (!self->large)
            return -1;
        memcpy(PyBytes_AS_STRING(self->large), self->small, self->out_size);
    } else if (needed > (size_t)PyBytes_GET_SIZE(self->large)) {
        if (_PyBytes_Resize(&self->large, (Py_ssize_t)(2 * needed)) < 0)
            return -1;
    }
    memcpy(PyBytes_AS_STRING(self->large) + self->out_size, data, size);
    self->out_size = needed;
    return 0;
}

static PyObject *fail_nghttp2(ssize_t error) {
    if (!PyErr_Occurred())
        PyErr_SetString(Http2Error, lib.strerror((int)error));
    return NULL;
}

/* What was appended, as bytes. */
static PyObject *appended(Session *self) {
    size_t size = self->out_size;
    PyObject *result;
    self->out_size = 0;
    if (!self->large)
        return PyBytes_FromStringAndSize(self->small, (Py_ssize_t)size);
    if (_PyBytes_Resize(&self->large, (Py_ssize_t)size) < 0)
        return NULL;
    result = self->large;
    self->large = NULL;
    return result;
}

static int add_piece(Session *self, PyObject *piece) {
    int failed = !piece || PyList_Append(self->pieces, piece) < 0;
    Py_XDECREF(piece);
    return failed ? -1 : 0;
}

/* Send `size` bytes of a message where they are, behind what was appended. */
static int append_view(Session *self, PyObject *message, size_t offset, size_t size) {
    if (!self->pieces && !(self->pieces = PyList_New(0)))
        return -1;
    if (self->out_size && add_piece(self, appended(self)) < 0)
        return -1;
    PyObject *whole = PyMemoryView_FromObject(message);
    PyObject *view = whole ? PySequence_GetSlice(whole, (Py_ssize_t)offset, (Py_ssize_t)(offset + size)) : NULL;
    Py_XDECREF(whole);
    return add_piece(self, view);
}

/* Everything that may be sent now: bytes, or a list of buffers where long messages are among it. */
static PyObject *output(Session *self) {
    const uint8_t *data;
    ssize_t size;
    PyObject *result;
    self->out_size = 0;
    while ((size = lib.session_mem_send(self->session, &data)) > 0)
        if (append(self, data, (size_t)size) < 0)
            break;
    if (size < 0 || PyErr_Occurred()) {
        Py_CLEAR(self->large);
        Py_CLEAR(self->pieces);
        return fail_nghttp2(size);
    }
    if (!self->pieces)
        return appended(self);
    if (self->out_size && add_piece(self, appended(self)) < 0)
        return NULL;
    result = self->pieces;
    self->pieces = NULL;
    return result;
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static Call *call_of(Session *self, int32_t id) {
    return lib.session_get_stream_user_data(self->session, id);
}

static Call *new_call(Session *self, int32_t id) {
    Call *call = PyMem_Calloc(1, sizeof *call);
    if (!call) {
        PyErr_NoMemory();
        return NULL;
    }
    call->id = id;
    call->timeout = -1;
    call->next = self->calls;
    if (self->calls)
        self->calls->previous = call;
    self->calls = call;
    self->call_count++;
    return call;
}

static void delete_call(Session *self, Call *call) {
    if (call->previous)
        call->previous->next = call->next;
    else
        self->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    self->call_count--;
    Py_XDECREF(call->rpc);
    Py_XDECREF(call->entries);
    Py_XDECREF(call->encoding);
    Py_XDECREF(call->accepts);
    Py_XDECREF(call->message);
    Py_XDECREF(call->queue);
    Py_XDECREF(call->status_text);
    PyMem_Free(call);
}

/* Takes over `event`, which may be NULL after an exception. */
static int tell(Session *self, PyObject *event) {
    int failed = !event || PyList_Append(self->events, event) < 0;
    Py_XDECREF(event);
    return failed ? -1 : 0;
}

#define FIXED(name, value)                                                                                             \
    { (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, NV_NO_COPY_NAME | NV_NO_COPY_VALUE }

static const nghttp2_nv STATUS_200 = FIXED(":status", "200");
static const nghttp2_nv CONTENT_TYPE = FIXED("content-type", "application/grpc");
static const nghttp2_nv ACCEPTS = FIXED("grpc-accept-encoding", "identity, deflate, gzip");
static const nghttp2_nv GRPC_OK = FIXED("grpc-status", "0");

static nghttp2_nv header(const char *name, const char *value, size_t size) {
    nghttp2_nv pair = {(uint8_t *)name, (uint8_t *)value, strlen(name), size, NV_NO_COPY_NAME};
    return pair;
}

/* Puts the status of `call` into `pairs`; `number` is room for its digits. How many pairs it took. */
static size_t status_pairs(Call *call, nghttp2_nv *pairs, char *number) {
    size_t count = 0;
    if (call->status == 0) {
        pairs[count++] = GRPC_OK;
        return count;
    }
    int digits = snprintf(number, 12, "%d", call->status);
    pairs[count++] = header("grpc-status", number, (size_t)digits);
    if (call->status_text && PyBytes_GET_SIZE(call->status_text))
        pairs[count++] = header("grpc-message", PyBytes_AS_STRING(call->status_text),
                                (size_t)PyBytes_GET_SIZE(call->status_text));
    return count;
}

static int submit_trailers(Session *self, Call *call) {
    nghttp2_nv pairs[2];
    char number[12];
    return lib.submit_trailer(self->session, call->id, pairs, status_pairs(call, pairs, number));
}

/* A message is bytes, or a tuple of buffers that are it one behind the other. */
static size_t message_size(PyObject *message) {
    size_t size = 0;
    if (PyBytes_Check(message))
        return (size_t)PyBytes_GET_SIZE(message);
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(message); index++)
        size += (size_t)PyObject_Size(PyTuple_GET_ITEM(message, index));
    return size;
}

static int append_piece(Session *self, PyObject *piece, size_t offset, size_t size) {
    Py_buffer buffer;
    if (size >= VIEWED)
        return append_view(self, piece, offset, size);
    if (PyObject_GetBuffer(piece, &buffer, PyBUF_SIMPLE) < 0)
        return -1;
    int failed = append(self, (const char *)buffer.buf + offset, size);
    PyBuffer_Release(&buffer);
    return failed;
}

static int append_message(Session *self, PyObject *message, size_t offset, size_t size) {
    if (PyBytes_Check(message))
        return append_piece(self, message, offset, size);
    for (Py_ssize_t index = 0; size && index < PyTuple_GET_SIZE(message); index++) {
        PyObject *piece = PyTuple_GET_ITEM(message, index);
        size_t whole = (size_t)PyObject_Size(piece);
        if (offset >= whole) {
            offset -= whole;
            continue;
        }
        size_t part = whole - offset < size ? whole - offset : size;
        if (append_piece(self, piece, offset, part) < 0)
            return -1;
        offset = 0;
        size -= part;
    }
    return 0;
}

/* Whether `message` is one; TypeError otherwise. */
static int is_message(PyObject *message) {
    int fits = PyBytes_Check(message) || PyTuple_Check(message);
    for (Py_ssize_t index = 0; fits && PyTuple_Check(message) && index < PyTuple_GET_SIZE(message); index++) {
        PyObject *piece = PyTuple_GET_ITEM(message, index);
        fits = PyBytes_Check(piece) || (PyMemoryView_Check(piece) && PyMemoryView_GET_BUFFER(piece)->itemsize == 1 &&
                                        PyMemoryView_GET_BUFFER(piece)->ndim == 1);
    }
    if (!fits)
        PyErr_SetString(PyExc_TypeError, "a message is bytes, or a tuple of bytes and of views of bytes");
    return fits;
}

/* The message that is being sent, without its prefix. */
static PyObject *current(Call *call, int *compressed) {
    PyObject *pair = PyList_GET_ITEM(call->queue, call->sending);
    *compressed = PyTuple_GET_ITEM(pair, 0) == Py_True;
    return PyTuple_GET_ITEM(pair, 1);
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *user) {
    Session *self = user;
    Call *call = source->ptr;
    int compressed, last;
    size_t left;
    if (!call->queue || call->sending >= PyList_GET_SIZE(call->queue)) {
        if (!call->finished) {
            call->deferred = 1;
            return ERR_DEFERRED;
        }
        *flags |= DATA_EOF | DATA_NO_END_STREAM;
        return submit_trailers(self, call) < 0 ? ERR_CALLBACK_FAILURE : 0;
    }
    left = PREFIX + message_size(current(call, &compressed)) - call->offset;
    last = call->finished && call->sending == PyList_GET_SIZE(call->queue) - 1;
    *flags |= DATA_NO_COPY;
    if (left > length)
        return (ssize_t)length;
    if (last) {
        *flags |= DATA_EOF | DATA_NO_END_STREAM;
        if (submit_trailers(self, call) < 0)
            return ERR_CALLBACK_FAILURE;
    }
    return (ssize_t)left;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                        nghttp2_data_source *source, void *user) {
    Session *self = user;
    Call *call = source->ptr;
    int compressed;
    PyObject *message = current(call, &compressed);
    size_t size = message_size(message);
    uint8_t prefix[PREFIX] = {(uint8_t)compressed, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                              (uint8_t)size};
    if (append(self, head, 9) < 0)
        return ERR_CALLBACK_FAILURE;
    if (call->offset < PREFIX) {
        size_t part = PREFIX - call->offset < length ? PREFIX - call->offset : length;
        if (append(self, prefix + call->offset, part) < 0)
            return ERR_CALLBACK_FAILURE;
        call->offset += part;
        length -= part;
    }
    if (append_message(self, message, call->offset - PREFIX, length) < 0)
        return ERR_CALLBACK_FAILURE;
    call->offset += length;
    if (call->offset == PREFIX + size) {
        Py_INCREF(Py_None);
        PyList_SetItem(call->queue, call->sending++, Py_None);
        call->offset = 0;
        if (call->sending == PyList_GET_SIZE(call->queue) && !call->finished) {
            Py_CLEAR(call->queue);
            call->sending = 0;
        }
    }
    return 0;
}

static ssize_t on_read_length(nghttp2_session *session, uint8_t type, int32_t id, int32_t connection_window,
                              int32_t stream_window, uint32_t max_frame, void *user) {
    int32_t size = connection_window < stream_window ? connection_window : stream_window;
    if (size > (int32_t)max_frame)
        size = (int32_t)max_frame;
    return size > SENT_FRAME ? SENT_FRAME : size;
}

/* End the call with a status and no message. -1 with an exception. */
static int finish(Session *self, Call *call, int status, PyObject *text) {
    if (call->finished)
        return 0;
    call->finished = 1;
    call->status = status;
    Py_XINCREF(text);
    Py_XSETREF(call->status_text, text);
    if (call->head_submitted) {
        if (call->deferred) {
            call->deferred = 0;
            lib.session_resume_data(self->session, call->id);
        }
        return 0;
    }
    nghttp2_nv pairs[4] = {STATUS_200, CONTENT_TYPE};
    char number[12];
    size_t count = 2 + status_pairs(call, pairs + 2, number);
    call->head_submitted = 1;
    int error = lib.submit_response(self->session, call->id, pairs, count, NULL);
    if (error < 0) {
        fail_nghttp2(error);
        return -1;
    }
    return 0;
}

static int refuse(Session *self, Call *call, int status, const char *text) {
    PyObject *message = PyBytes_FromString(text);
    int failed = !message || finish(self, call, status, message) < 0;
    Py_XDECREF(message);
    call->refused = 1;
    return failed ? -1 : 0;
}

/* A request that is not gRPC at all. */
static int refuse_http(Session *self, Call *call, const char *status) {
    nghttp2_nv pairs[1] = {header(":status", status, strlen(status))};
    call->refused = call->finished = call->head_submitted = 1;
    return lib.submit_response(self->session, call->id, pairs, 1, NULL) < 0 ? -1 : 0;
}

/* Put `message` behind what is sent of the call. -1 with an exception. */
static int enqueue(Session *self, Call *call, PyObject *message, PyObject *encoding) {
    if (!call->queue && !(call->queue = PyList_New(0)))
        return -1;
    PyObject *pair = PyTuple_Pack(2, encoding == Py_None ? Py_False : Py_True, message);
    int failed = !pair || PyList_Append(call->queue, pair) < 0;
    Py_XDECREF(pair);
    if (failed)
        return -1;
    if (call->head_submitted) {
        if (call->deferred) {
            call->deferred = 0;
            lib.session_resume_data(self->session, call->id);
        }
        return 0;
    }
    nghttp2_nv pairs[4] = {STATUS_200, CONTENT_TYPE, ACCEPTS};
    size_t count = 3;
    if (encoding != Py_None) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(encoding, &size);
        if (!text)
            return -1;
        pairs[count++] = header("grpc-encoding", text, (size_t)size);
    }
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = on_read};
    call->head_submitted = 1;
    int error = lib.submit_response(self->session, call->id, pairs, count, &provider);
    if (error < 0) {
        fail_nghttp2(error);
        return -1;
    }
    return 0;
}

/* --- what comes in ----------------------------------------------------------------------------------------------- */

static PyObject *text_of(const uint8_t *data, size_t size) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)data, (Py_ssize_t)size, NULL);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        text = PyUnicode_DecodeLatin1((const char *)data, (Py_ssize_t)size, NULL);
    }
    return text;
}

static double seconds(const uint8_t *text, size_t size) {
    static const char units[] = "HMSmun";
    static const double values[] = {3600, 60, 1, 1e-3, 1e-6, 1e-9};
    double number = 0;
    const char *unit;
    if (size < 2 || size > 9)
        return -1;
    for (size_t index = 0; index < size - 1; index++) {
        if (text[index] < '0' || text[index] > '9')
            return -1;
        number = 10 * number + (text[index] - '0');
    }
    unit = strchr(units, text[size - 1]);
    return unit && *unit ? number * values[unit - units] : -1;
}

static int find_rpc(Session *self, Call *call, const uint8_t *path, size_t size) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)path, (Py_ssize_t)size);
    if (!key)
        return -1;
    PyObject *found = PyDict_GetItemWithError(self->unary, key);
    if (!found && !PyErr_Occurred()) {
        found = PyDict_GetItemWithError(self->streams, key);
        call->streaming = found != NULL;
    }
    Py_DECREF(key);
    Py_XINCREF(found);
    Py_XSETREF(call->rpc, found);
    return PyErr_Occurred() ? -1 : 0;
}

static int add_entry(Call *call, const uint8_t *name, size_t name_size, const uint8_t *value, size_t size) {
    int binary = name_size > 4 && !memcmp(name + name_size - 4, "-bin", 4);
    PyObject *key = text_of(name, name_size);
    PyObject *item = binary ? PyBytes_FromStringAndSize((const char *)value, (Py_ssize_t)size) : text_of(value, size);
    PyObject *pair = key && item ? PyTuple_Pack(2, key, item) : NULL;
    if (pair && !call->entries)
        call->entries = PyList_New(0);
    int failed = !pair || !call->entries || PyList_Append(call->entries, pair) < 0;
    Py_XDECREF(key);
    Py_XDECREF(item);
    Py_XDECREF(pair);
    return failed ? -1 : 0;
}

#define IS(literal) (name_size == sizeof(literal) - 1 && !memcmp(name, literal, sizeof(literal) - 1))

static int read_header(Session *self, Call *call, const uint8_t *name, size_t name_size, const uint8_t *value,
                       size_t size) {
    static const char grpc[] = "application/grpc";
    if (IS(":path"))
        return find_rpc(self, call, value, size);
    if (IS(":method")) {
        call->is_post = size == 4 && !memcmp(value, "POST", 4);
        return 0;
    }
    if (IS("content-type")) {
        size_t length = sizeof grpc - 1;
        call->is_grpc = size >= length && !memcmp(value, grpc, length) &&
                        (size == length || value[length] == '+' || value[length] == ';');
        return 0;
    }
    if (IS("te") || name[0] == ':')
        return 0;
    if (IS("grpc-timeout")) {
        call->timeout = seconds(value, size);
        return 0;
    }
    if (IS("grpc-encoding")) {
        Py_XSETREF(call->encoding, text_of(value, size));
        return call->encoding ? 0 : -1;
    }
    if (IS("grpc-accept-encoding")) {
        Py_XSETREF(call->accepts, text_of(value, size));
        return call->accepts ? 0 : -1;
    }
    return add_entry(call, name, name_size, value, size);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    Session *self = user;
    if (frame->hd.type != HEADERS || call_of(self, frame->hd.stream_id))
        return 0;
    Call *call = new_call(self, frame->hd.stream_id);
    if (!call)
        return ERR_CALLBACK_FAILURE;
    lib.session_set_stream_user_data(session, call->id, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *user) {
    Session *self = user;
    Call *call = call_of(self, frame->hd.stream_id);
    if (!call || call->opened || !name_size)
        return 0;
    call->metadata_size += name_size + size + 32;
    if (call->metadata_size > self->max_metadata)
        return 0;
    return read_header(self, call, name, name_size, value, size) < 0 ? ERR_CALLBACK_FAILURE : 0;
}

static PyObject *or_none(PyObject *object) {
    return object ? object : Py_None;
}

/* The event of a new call; `message` is None for a stream. Takes over nothing. */
static int tell_call(Session *self, Call *call, int kind, PyObject *message, int compressed) {
    PyObject *entries = call->entries ? PyList_AsTuple(call->entries) : Py_NewRef(empty_tuple);
    PyObject *timeout = call->timeout < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble(call->timeout);
    PyObject *encoding = compressed ? (call->encoding ? call->encoding : Py_False) : Py_None;
    PyObject *event = NULL;
    if (entries && timeout)
        event = Py_BuildValue("(iiOOOOOO)", kind, call->id, call->rpc, message, entries, timeout, encoding,
                              or_none(call->accepts));
    Py_XDECREF(entries);
    Py_XDECREF(timeout);
    call->dispatched = 1;
    return tell(self, event);
}

static int open_call(Session *self, Call *call) {
    call->opened = 1;
    if (!call->is_post)
        return refuse_http(self, call, "405");
    if (!call->is_grpc)
        return refuse_http(self, call, "415");
    if (call->metadata_size > self->max_metadata)
        return refuse(self, call, 8, "The metadata of the call is too large.");
    if (!call->rpc)
        return refuse(self, call, 12, "");
    return call->streaming ? tell_call(self, call, STREAM, Py_None, 0) : 0;
}

static int end_of_requests(Session *self, Call *call) {
    if (call->refused)
        return 0;
    if (call->streaming)
        return tell(self, Py_BuildValue("(ii)", END, call->id));
    return call->dispatched ? 0 : refuse(self, call, 13, "The call ended before its message.");
}

static int on_frame_received(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    Session *self = user;
    int failed = 0;
    if (frame->hd.type == PING && frame->hd.flags & FLAG_ACK)
        return tell(self, Py_BuildValue("(i)", PONG)) < 0 ? ERR_CALLBACK_FAILURE : 0;
    if (frame->hd.type != DATA && frame->hd.type != HEADERS)
        return 0;
    Call *call = call_of(self, frame->hd.stream_id);
    if (!call)
        return 0;
    if (!call->opened)
        failed = open_call(self, call) < 0;
    if (!failed && frame->hd.flags & FLAG_END_STREAM)
        failed = end_of_requests(self, call) < 0;
    return failed ? ERR_CALLBACK_FAILURE : 0;
}

/* The prefix is complete: make room for the message. */
static int begin_message(Session *self, Call *call) {
    const uint8_t *p = call->prefix;
    call->size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    call->filled = 0;
    if (p[0] > 1)
        return refuse(self, call, 13, "The message has a prefix that gRPC does not know.");
    if (self->max_message >= 0 && call->size > (size_t)self->max_message) {
        char text[80];
        snprintf(text, sizeof text, "Received message larger than max (%zu vs. %zd)", call->size, self->max_message);
        return refuse(self, call, 8, text);
    }
    size_t room = call->size < FIRST_ALLOCATION ? call->size : FIRST_ALLOCATION;
    call->message = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room);
    return call->message ? 0 : -1;
}

/* A large message comes into fresh memory each time. In small pages that costs more than copying it. */
static void prefer_huge_pages(PyObject *message) {
#ifdef MADV_HUGEPAGE
    uintptr_t start = (uintptr_t)PyBytes_AS_STRING(message), end = start + (uintptr_t)PyBytes_GET_SIZE(message);
    start = (start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    end &= ~(HUGE_PAGE - 1);
    if (start < end)
        madvise((void *)start, end - start, MADV_HUGEPAGE); /* a wish: where there are none, nothing is lost */
#endif
}

static int fill_message(Call *call, const uint8_t *data, size_t size) {
    size_t room = (size_t)PyBytes_GET_SIZE(call->message), needed = call->filled + size;
    if (needed > room) {
        room = call->size < BELIEVED * needed ? call->size : BELIEVED * needed;
        if (_PyBytes_Resize(&call->message, (Py_ssize_t)room) < 0)
            return -1;
        if (room >= APART)
            prefer_huge_pages(call->message);
    }
    memcpy(PyBytes_AS_STRING(call->message) + call->filled, data, size);
    call->filled = needed;
    return 0;
}

static int end_message(Session *self, Call *call) {
    PyObject *message = call->message;
    int compressed = call->prefix[0], failed = 0;
    call->message = NULL;
    call->prefix_size = 0;
    if (call->streaming) {
        PyObject *encoding = compressed ? (call->encoding ? call->encoding : Py_False) : Py_None;
        call->unread++;
        failed = tell(self, Py_BuildValue("(iiOO)", MESSAGE, call->id, message, encoding)) < 0;
    } else if (!call->dispatched) {
        failed = tell_call(self, call, UNARY, message, compressed) < 0;
    }
    Py_DECREF(message);
    return failed ? -1 : 0;
}

static int read_data(Session *self, Call *call, const uint8_t *data, size_t size) {
    while (!call->refused) {
        if (call->prefix_size < PREFIX) {
            size_t part = PREFIX - call->prefix_size < size ? PREFIX - call->prefix_size : size;
            memcpy(call->prefix + call->prefix_size, data, part);
            call->prefix_size += part;
            data += part;
            size -= part;
            if (call->prefix_size < PREFIX)
                return 0;
            if (begin_message(self, call) < 0)
                return -1;
            continue;
        }
        size_t part = call->size - call->filled < size ? call->size - call->filled : size;
        if (part && fill_message(call, data, part) < 0)
            return -1;
        data += part;
        size -= part;
        if (call->filled < call->size)
            return 0;
        if (end_message(self, call) < 0)
            return -1;
        if (!size)
            return 0;
    }
    return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *user) {
    Session *self = user;
    Call *call = call_of(self, id);
    lib.session_consume_connection(session, size);
    if (call && call->streaming && call->unread >= UNREAD)
        call->held += size;
    else
        lib.session_consume_stream(session, id, size);
    if (!call || !call->opened)
        return 0;
    return read_data(self, call, data, size) < 0 ? ERR_CALLBACK_FAILURE : 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    if (frame->hd.type != HEADERS || !(frame->hd.flags & FLAG_END_STREAM))
        return 0;
    Call *call = call_of(user, frame->hd.stream_id);
    if (!call)
        return 0;
    call->complete = 1;
    /* The status is final: the client need not send the rest of its requests. */
    if (!lib.session_get_stream_remote_close(session, call->id))
        lib.submit_rst_stream(session, 0, call->id, NO_ERROR);
    return 0;
}

static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *user) {
    Session *self = user;
    Call *call = call_of(self, id);
    int failed = 0;
    if (!call)
        return 0;
    if (call->dispatched && !call->complete)
        failed = tell(self, Py_BuildValue("(iik)", CANCELLED, id, (unsigned long)error)) < 0;
    lib.session_set_stream_user_data(session, id, NULL);
    delete_call(self, call);
    return failed ? ERR_CALLBACK_FAILURE : 0;
}

/* --- the type ---------------------------------------------------------------------------------------------------- */

static int submit_first_settings(Session *self, unsigned max_streams) {
    nghttp2_settings_entry settings[] = {
        {MAX_CONCURRENT_STREAMS, max_streams},
        {INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {MAX_FRAME_SIZE, RECEIVED_FRAME},
        {MAX_HEADER_LIST_SIZE, (uint32_t)self->max_metadata},
    };
    int error = lib.submit_settings(self->session, 0, settings, sizeof settings / sizeof *settings);
    if (!error)
        error = lib.session_set_local_window_size(self->session, 0, 0, CONNECTION_WINDOW);
    return error;
}

static PyObject *Session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"unary", "streams", "max_message", "max_metadata", "max_streams", NULL};
    PyObject *unary, *streams;
    Py_ssize_t max_message, max_metadata;
    unsigned max_streams;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!nnI", names, &PyDict_Type, &unary, &PyDict_Type, &streams,
                                     &max_message, &max_metadata, &max_streams))
        return NULL;
    Session *self = (Session *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->unary = Py_NewRef(unary);
    self->streams = Py_NewRef(streams);
    self->max_message = max_message;
    self->max_metadata = (size_t)max_metadata;
    int error = (self->events = PyList_New(0)) ? 0 : -1;
    if (!error)
        error = lib.session_server_new2(&self->session, callbacks, self, options);
    if (!error)
        error = submit_first_settings(self, max_streams);
    if (error) {
        Py_DECREF(self);
        return fail_nghttp2(error);
    }
    return (PyObject *)self;
}

static void Session_dealloc(Session *self) {
    if (self->session)
        lib.session_del(self->session);
    while (self->calls)
        delete_call(self, self->calls);
    Py_XDECREF(self->unary);
    Py_XDECREF(self->streams);
    Py_XDECREF(self->events);
    Py_XDECREF(self->large);
    Py_XDECREF(self->pieces);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *Session_receive(Session *self, PyObject *args) {
    Py_buffer buffer;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "y*n", &buffer, &count))
        return NULL;
    if (count < 0 || count > buffer.len) {
        PyBuffer_Release(&buffer);
        PyErr_SetString(PyExc_ValueError, "more bytes than the buffer has");
        return NULL;
    }
    ssize_t used = lib.session_mem_recv(self->session, buffer.buf, (size_t)count);
    PyBuffer_Release(&buffer);
    if (used < 0)
        return fail_nghttp2(used);
    if (!PyList_GET_SIZE(self->events))
        return Py_NewRef(empty_tuple);
    PyObject *events = self->events;
    self->events = PyList_New(0);
    if (!self->events) {
        self->events = events;
        return NULL;
    }
    return events;
}

static PyObject *Session_output(Session *self, PyObject *ignored) {
    return output(self);
}

static PyObject *Session_respond(Session *self, PyObject *args) {
    int id;
    PyObject *message, *encoding = Py_None;
    if (!PyArg_ParseTuple(args, "iO|O", &id, &message, &encoding) || !is_message(message))
        return NULL;
    Call *call = call_of(self, id);
    if (call && !call->finished) {
        call->finished = 1;
        if (enqueue(self, call, message, encoding) < 0)
            return NULL;
    }
    return output(self);
}

static PyObject *Session_send(Session *self, PyObject *args) {
    int id;
    PyObject *message, *encoding = Py_None;
    if (!PyArg_ParseTuple(args, "iO|O", &id, &message, &encoding) || !is_message(message))
        return NULL;
    Call *call = call_of(self, id);
    if (call && !call->finished && enqueue(self, call, message, encoding) < 0)
        return NULL;
    return output(self);
}

static PyObject *Session_finish(Session *self, PyObject *args) {
    int id, status;
    PyObject *text;
    if (!PyArg_ParseTuple(args, "iiS", &id, &status, &text))
        return NULL;
    Call *call = call_of(self, id);
    if (call && finish(self, call, status, text) < 0)
        return NULL;
    return output(self);
}

static PyObject *Session_take(Session *self, PyObject *argument) {
    long id = PyLong_AsLong(argument);
    if (id == -1 && PyErr_Occurred())
        return NULL;
    Call *call = call_of(self, (int32_t)id);
    if (call && call->unread && --call->unread < UNREAD && call->held) {
        lib.session_consume_stream(self->session, call->id, call->held);
        call->held = 0;
    }
    return output(self);
}

static PyObject *Session_unsent(Session *self, PyObject *argument) {
    long id = PyLong_AsLong(argument);
    if (id == -1 && PyErr_Occurred())
        return NULL;
    Call *call = call_of(self, (int32_t)id);
    size_t size = 0;
    for (Py_ssize_t index = call && call->queue ? call->sending : 0;
         call && call->queue && index < PyList_GET_SIZE(call->queue); index++)
        size += message_size(PyTuple_GET_ITEM(PyList_GET_ITEM(call->queue, index), 1));
    return PyLong_FromSize_t(size);
}

static PyObject *Session_shut_down(Session *self, PyObject *ignored) {
    static const uint8_t data[8] = "draining";
    lib.submit_shutdown_notice(self->session);
    lib.submit_ping(self->session, 0, data);
    return output(self);
}

static PyObject *Session_go_away(Session *self, PyObject *ignored) {
    lib.submit_goaway(self->session, 0, lib.session_get_last_proc_stream_id(self->session), NO_ERROR, NULL, 0);
    return output(self);
}

static PyObject *Session_get_calls(Session *self, void *closure) {
    return PyLong_FromSsize_t(self->call_count);
}

static PyObject *Session_get_over(Session *self, void *closure) {
    return PyBool_FromLong(!lib.session_want_read(self->session) && !lib.session_want_write(self->session));
}

static PyMethodDef session_methods[] = {
    {"receive", (PyCFunction)Session_receive, METH_VARARGS, "receive(buffer, count): what happened."},
    {"output", (PyCFunction)Session_output, METH_NOARGS, "output(): what to send: bytes, or a list of buffers."},
    {"respond", (PyCFunction)Session_respond, METH_VARARGS, "respond(call, message, encoding=None): what to send."},
    {"send", (PyCFunction)Session_send, METH_VARARGS, "send(call, message, encoding=None): what to send."},
    {"finish", (PyCFunction)Session_finish, METH_VARARGS, "finish(call, status, text): what to send."},
    {"take", (PyCFunction)Session_take, METH_O, "take(call): a message was read; what to send."},
    {"unsent", (PyCFunction)Session_unsent, METH_O, "unsent(call): bytes of messages that wait for the client."},
    {"shut_down", (PyCFunction)Session_shut_down, METH_NOARGS, "shut_down(): announce the end; what to send."},
    {"go_away", (PyCFunction)Session_go_away, METH_NOARGS, "go_away(): take no more calls; what to send."},
    {NULL},
};

static PyGetSetDef session_properties[] = {
    {"calls", (getter)Session_get_calls, NULL, "How many calls are open.", NULL},
    {"over", (getter)Session_get_over, NULL, "Whether nothing is left to receive or to send.", NULL},
    {NULL},
};

static PyTypeObject SessionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "bridge.transport.native._http2.Session",
    .tp_basicsize = sizeof(Session),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The server's side of one gRPC connection.",
    .tp_new = Session_new,
    .tp_dealloc = (destructor)Session_dealloc,
    .tp_methods = session_methods,
    .tp_getset = session_properties,
};

/* --- the module -------------------------------------------------------------------------------------------------- */

static int open_library(void) {
    void *handle = dlopen(NGHTTP2_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        PyErr_Format(PyExc_ImportError, "%s cannot be opened: %s", NGHTTP2_SONAME, dlerror());
        return -1;
    }
#define FIND(name, result, parameters) *(void **)&lib.name = dlsym(handle, "nghttp2_" #name);
#define RESOLVE(name, result, parameters)                                                                              \
    FIND(name, result, parameters)                                                                                     \
    if (!lib.name) {                                                                                                   \
        PyErr_SetString(PyExc_ImportError, NGHTTP2_SONAME " is too old: it has no nghttp2_" #name);                    \
        return -1;                                                                                                     \
    }
    NGHTTP2_FUNCTIONS(RESOLVE)
    NGHTTP2_OPTIONAL(FIND)
#undef RESOLVE
#undef FIND
    return 0;
}

static int set_up_library(void) {
    if (lib.session_callbacks_new(&callbacks) || lib.option_new(&options)) {
        PyErr_NoMemory();
        return -1;
    }
    lib.session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    lib.session_callbacks_set_on_header_callback(callbacks, on_header);
    lib.session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_received);
    lib.session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    lib.session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    lib.session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
    lib.session_callbacks_set_send_data_callback(callbacks, on_send_data);
    lib.session_callbacks_set_data_source_read_length_callback(callbacks, on_read_length);
    lib.option_set_no_auto_window_update(options, 1);
    lib.option_set_no_closed_streams(options, 1);
    if (lib.option_set_no_rfc9113_leading_and_trailing_ws_validation)
        lib.option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);
    lib.option_set_max_continuations(options, MAX_CONTINUATIONS);
    return 0;
}

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_http2", "gRPC connections on bytes.", -1};

PyMODINIT_FUNC PyInit__http2(void) {
    PyObject *result;
    if (open_library() < 0 || set_up_library() < 0 || PyType_Ready(&SessionType) < 0)
        return NULL;
    if (!(empty_tuple = PyTuple_New(0)) || !(result = PyModule_Create(&module)))
        return NULL;
    Http2Error = PyErr_NewException("bridge.transport.native._http2.Http2Error", NULL, NULL);
    if (!Http2Error || PyModule_AddObjectRef(result, "Http2Error", Http2Error) < 0 ||
        PyModule_AddObjectRef(result, "Session", (PyObject *)&SessionType) < 0 ||
        PyModule_AddIntMacro(result, UNARY) < 0 || PyModule_AddIntMacro(result, STREAM) < 0 ||
        PyModule_AddIntMacro(result, MESSAGE) < 0 || PyModule_AddIntMacro(result, END) < 0 ||
        PyModule_AddIntMacro(result, CANCELLED) < 0 || PyModule_AddIntMacro(result, PONG) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
