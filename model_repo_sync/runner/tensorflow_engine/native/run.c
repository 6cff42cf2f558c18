/* One run of a TensorFlow session in one call from Python: what ctypes does in a dozen.
 *
 * TensorFlow's functions come as addresses, so nothing of TensorFlow is needed to build this, and one build serves
 * every release of it. Strings are left to Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>
#include <time.h>

#define MAX_RANK 254

typedef struct {
  void *(*allocate_tensor)(int dtype, const int64_t *dims, int rank, size_t size);
  void *(*tensor_data)(const void *tensor);
  void (*delete_tensor)(void *tensor);
  int (*num_dims)(const void *tensor);
  int64_t (*dim)(const void *tensor, int index);
  size_t (*tensor_byte_size)(const void *tensor);
  int (*get_code)(const void *status);
  void (*session_run)(void *session, const void *options, const void *inputs, void *const *input_values, int inputs_count,
                      const void *outputs, void **output_values, int outputs_count, const void *const *targets,
                      int targets_count, void *metadata, void *status);
} Functions;

/* The sum of the buffers' sizes; -1 with an exception set. */
static Py_ssize_t total_size(PyObject *arrays) {
  Py_ssize_t total = 0;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arrays); i++) {
    Py_buffer view;
    if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(arrays, i), &view, PyBUF_SIMPLE) < 0) return -1;
    total += view.len;
    PyBuffer_Release(&view);
  }
  return total;
}

static int copy_all(PyObject *arrays, char *memory) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arrays); i++) {
    Py_buffer view;
    if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(arrays, i), &view, PyBUF_SIMPLE) < 0) return -1;
    if (view.len > 0) memcpy(memory, view.buf, (size_t)view.len);
    memory += view.len;
    PyBuffer_Release(&view);
  }
  return 0;
}

/* A tensor with the elements of `arrays`, one after the other; NULL with an exception set. */
static void *make_tensor(const Functions *tf, int dtype, PyObject *shape, PyObject *arrays) {
  int64_t dims[MAX_RANK];
  Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  if (rank > MAX_RANK) {
    PyErr_SetString(PyExc_ValueError, "too many dimensions");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < rank; i++) {
    dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (dims[i] == -1 && PyErr_Occurred()) return NULL;
  }
  PyObject *sequence = PySequence_Fast(arrays, "arrays are no sequence");
  if (sequence == NULL) return NULL;
  void *tensor = NULL;
  Py_ssize_t size = total_size(sequence);
  if (size >= 0) {
    tensor = tf->allocate_tensor(dtype, dims, (int)rank, (size_t)size);
    if (tensor == NULL) {
      PyErr_NoMemory();
    } else if (size > 0 && copy_all(sequence, tf->tensor_data(tensor)) < 0) {
      tf->delete_tensor(tensor);
      tensor = NULL;
    }
  }
  Py_DECREF(sequence);
  return tensor;
}

static PyObject *shape_of(const Functions *tf, const void *tensor) {
  int rank = tf->num_dims(tensor);
  PyObject *shape = PyTuple_New(rank);
  for (int i = 0; shape != NULL && i < rank; i++) {
    PyObject *size = PyLong_FromLongLong(tf->dim(tensor, i));
    if (size == NULL) {
      Py_CLEAR(shape);
    } else {
      PyTuple_SET_ITEM(shape, i, size);
    }
  }
  return shape;
}

/* (shape, bytes) of a small tensor of numbers, which is deleted; the address of any other, which is the caller's. */
static PyObject *read_tensor(const Functions *tf, void *tensor, int is_string, Py_ssize_t small) {
  size_t size = is_string ? 0 : tf->tensor_byte_size(tensor);
  if (is_string || size > (size_t)small) return PyLong_FromVoidPtr(tensor);
  PyObject *shape = shape_of(tf, tensor);
  PyObject *content = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
  PyObject *result = NULL;
  if (shape != NULL && content != NULL) {
    if (size > 0) memcpy(PyBytes_AS_STRING(content), tf->tensor_data(tensor), size);
    result = PyTuple_Pack(2, shape, content);
  }
  Py_XDECREF(shape);
  Py_XDECREF(content);
  if (result != NULL) tf->delete_tensor(tensor);
  return result;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void delete_all(const Functions *tf, void **tensors, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (tensors[i] != NULL) tf->delete_tensor(tensors[i]);
  }
}

/* The fetched tensors as a list; whatever happens, none is left behind. */
static PyObject *read_all(const Functions *tf, void **fetched, const char *strings, Py_ssize_t count, Py_ssize_t small) {
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    PyObject *item = read_tensor(tf, fetched[i], strings[i], small);
    if (item == NULL) {
      for (Py_ssize_t done = 0; done < i; done++) {
        PyObject *before = PyList_GET_ITEM(list, done);
        if (PyLong_Check(before)) tf->delete_tensor(PyLong_AsVoidPtr(before));
      }
      Py_CLEAR(list);
      delete_all(tf, fetched + i, count - i);
    } else {
      PyList_SET_ITEM(list, i, item);
    }
  }
  return list;
}

PyDoc_STRVAR(run_doc,
             "run(functions, session, status, inputs, numbers, feeds, outputs, strings, small)\n--\n\n"
             "The code of the status, the seconds that TensorFlow took, and what was fetched.");

static PyObject *run(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  (void)module;
  if (count != 9 || !PyTuple_Check(arguments[4]) || !PyBytes_Check(arguments[7])) {
    PyErr_SetString(PyExc_TypeError, "run takes nine arguments, a tuple of numbers and bytes among them");
    return NULL;
  }
  const Functions *tf = PyLong_AsVoidPtr(arguments[0]);
  void *session = PyLong_AsVoidPtr(arguments[1]);
  void *status = PyLong_AsVoidPtr(arguments[2]);
  const void *inputs = PyLong_AsVoidPtr(arguments[3]);
  PyObject *numbers = arguments[4];
  const void *outputs = PyLong_AsVoidPtr(arguments[6]);
  const char *strings = PyBytes_AS_STRING(arguments[7]);
  Py_ssize_t output_count = PyBytes_GET_SIZE(arguments[7]);
  Py_ssize_t small = PyLong_AsSsize_t(arguments[8]);
  if (PyErr_Occurred()) return NULL;

  PyObject *feeds = PySequence_Fast(arguments[5], "feeds are no sequence");
  if (feeds == NULL) return NULL;
  Py_ssize_t input_count = PyTuple_GET_SIZE(numbers);
  void **tensors = PyMem_Calloc((size_t)(input_count + output_count + 1), sizeof(void *));
  PyObject *result = NULL;
  if (tensors == NULL || PySequence_Fast_GET_SIZE(feeds) != input_count) {
    PyErr_SetString(PyExc_ValueError, "there are not as many feeds as numbers, or there is no memory for them");
    goto done;
  }
  void **fetched = tensors + input_count;
  for (Py_ssize_t i = 0; i < input_count; i++) {
    PyObject *feed = PySequence_Fast_GET_ITEM(feeds, i);
    if (!PyTuple_Check(feed) || PyTuple_GET_SIZE(feed) != 4 || !PyTuple_Check(PyTuple_GET_ITEM(feed, 2))) {
      PyErr_SetString(PyExc_TypeError, "a feed is a tuple of name, dtype, shape and arrays");
      goto done;
    }
    int dtype = (int)PyLong_AsLong(PyTuple_GET_ITEM(numbers, i));
    tensors[i] = make_tensor(tf, dtype, PyTuple_GET_ITEM(feed, 2), PyTuple_GET_ITEM(feed, 3));
    if (tensors[i] == NULL) goto done;
  }
  double start = seconds_now();
  Py_BEGIN_ALLOW_THREADS;
  tf->session_run(session, NULL, inputs, tensors, (int)input_count, outputs, fetched, (int)output_count, NULL, 0, NULL,
                  status);
  Py_END_ALLOW_THREADS;
  double seconds = seconds_now() - start;
  int code = tf->get_code(status);
  PyObject *list = code == 0 ? read_all(tf, fetched, strings, output_count, small) : PyList_New(0);
  if (list != NULL) result = Py_BuildValue("(idN)", code, seconds, list);
done:
  if (tensors != NULL) delete_all(tf, tensors, input_count);
  PyMem_Free(tensors);
  Py_DECREF(feeds);
  return result;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, run_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_run", "One run of a TensorFlow session in one call.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__run(void) { return PyModule_Create(&definition); }
