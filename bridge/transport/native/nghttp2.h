/* The part of libnghttp2's binary interface that is used here. It is stable within the library's soname, so that the
 * library is opened when it is first needed, and neither its headers nor the library itself are needed to build. */
#ifndef BRIDGE_NGHTTP2_H
#define BRIDGE_NGHTTP2_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NGHTTP2_SONAME "libnghttp2.so.14"

typedef struct nghttp2_session nghttp2_session;
typedef struct nghttp2_session_callbacks nghttp2_session_callbacks;
typedef struct nghttp2_option nghttp2_option;

enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6 };
enum { FLAG_END_STREAM = 0x1, FLAG_ACK = 0x1, FLAG_END_HEADERS = 0x4 };
enum { NV_NO_COPY_NAME = 0x2, NV_NO_COPY_VALUE = 0x4 };
enum { DATA_EOF = 0x1, DATA_NO_END_STREAM = 0x2, DATA_NO_COPY = 0x4 };
enum { ERR_DEFERRED = -508, ERR_CALLBACK_FAILURE = -902 };
enum { NO_ERROR = 0, INTERNAL_ERROR = 2, CANCEL = 8, ENHANCE_YOUR_CALM = 11 };
enum { MAX_CONCURRENT_STREAMS = 3, INITIAL_WINDOW_SIZE = 4, MAX_FRAME_SIZE = 5, MAX_HEADER_LIST_SIZE = 6 };

typedef struct {
    size_t length;
    int32_t stream_id;
    uint8_t type;
    uint8_t flags;
    uint8_t reserved;
} nghttp2_frame_hd;

/* Every frame begins with its head; the rest of them is not looked at. */
typedef union {
    nghttp2_frame_hd hd;
} nghttp2_frame;

typedef struct {
    uint8_t *name;
    uint8_t *value;
    size_t namelen;
    size_t valuelen;
    uint8_t flags;
} nghttp2_nv;

typedef struct {
    int32_t settings_id;
    uint32_t value;
} nghttp2_settings_entry;

typedef union {
    int fd;
    void *ptr;
} nghttp2_data_source;

typedef ssize_t (*read_callback)(nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *,
                                 void *);

typedef struct {
    nghttp2_data_source source;
    read_callback read_callback;
} nghttp2_data_provider;

typedef int (*frame_callback)(nghttp2_session *, const nghttp2_frame *, void *);
typedef int (*header_callback)(nghttp2_session *, const nghttp2_frame *, const uint8_t *, size_t, const uint8_t *,
                               size_t, uint8_t, void *);
typedef int (*chunk_callback)(nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *);
typedef int (*close_callback)(nghttp2_session *, int32_t, uint32_t, void *);
typedef int (*send_data_callback)(nghttp2_session *, nghttp2_frame *, const uint8_t *, size_t, nghttp2_data_source *,
                                  void *);
typedef ssize_t (*read_length_callback)(nghttp2_session *, uint8_t, int32_t, int32_t, int32_t, uint32_t, void *);

/* name, result, parameters */
#define NGHTTP2_FUNCTIONS(F)                                                                                           \
    F(session_callbacks_new, int, (nghttp2_session_callbacks **))                                                      \
    F(session_callbacks_set_on_begin_headers_callback, void, (nghttp2_session_callbacks *, frame_callback))           \
    F(session_callbacks_set_on_header_callback, void, (nghttp2_session_callbacks *, header_callback))                  \
    F(session_callbacks_set_on_frame_recv_callback, void, (nghttp2_session_callbacks *, frame_callback))               \
    F(session_callbacks_set_on_frame_send_callback, void, (nghttp2_session_callbacks *, frame_callback))               \
    F(session_callbacks_set_on_data_chunk_recv_callback, void, (nghttp2_session_callbacks *, chunk_callback))          \
    F(session_callbacks_set_on_stream_close_callback, void, (nghttp2_session_callbacks *, close_callback))             \
    F(session_callbacks_set_send_data_callback, void, (nghttp2_session_callbacks *, send_data_callback))               \
    F(session_callbacks_set_data_source_read_length_callback, void,                                                    \
      (nghttp2_session_callbacks *, read_length_callback))                                                             \
    F(option_new, int, (nghttp2_option **))                                                                            \
    F(option_set_no_auto_window_update, void, (nghttp2_option *, int))                                                 \
    F(option_set_no_closed_streams, void, (nghttp2_option *, int))                                                     \
    F(option_set_stream_reset_rate_limit, void, (nghttp2_option *, uint64_t, uint64_t))                                \
    F(option_set_max_continuations, void, (nghttp2_option *, size_t))                                                  \
    F(session_server_new2, int,                                                                                        \
      (nghttp2_session **, const nghttp2_session_callbacks *, void *, const nghttp2_option *))                         \
    F(session_del, void, (nghttp2_session *))                                                                          \
    F(session_mem_recv, ssize_t, (nghttp2_session *, const uint8_t *, size_t))                                         \
    F(session_mem_send, ssize_t, (nghttp2_session *, const uint8_t **))                                                \
    F(session_want_read, int, (nghttp2_session *))                                                                     \
    F(session_want_write, int, (nghttp2_session *))                                                                    \
    F(session_get_stream_user_data, void *, (nghttp2_session *, int32_t))                                              \
    F(session_set_stream_user_data, int, (nghttp2_session *, int32_t, void *))                                         \
    F(session_get_stream_remote_close, int, (nghttp2_session *, int32_t))                                              \
    F(session_get_last_proc_stream_id, int32_t, (nghttp2_session *))                                                   \
    F(session_set_local_window_size, int, (nghttp2_session *, uint8_t, int32_t, int32_t))                              \
    F(session_consume, int, (nghttp2_session *, int32_t, size_t))                                                      \
    F(session_consume_connection, int, (nghttp2_session *, size_t))                                                    \
    F(session_consume_stream, int, (nghttp2_session *, int32_t, size_t))                                               \
    F(session_resume_data, int, (nghttp2_session *, int32_t))                                                          \
    F(submit_settings, int, (nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t))                      \
    F(submit_response, int,                                                                                            \
      (nghttp2_session *, int32_t, const nghttp2_nv *, size_t, const nghttp2_data_provider *))                         \
    F(submit_trailer, int, (nghttp2_session *, int32_t, const nghttp2_nv *, size_t))                                   \
    F(submit_rst_stream, int, (nghttp2_session *, uint8_t, int32_t, uint32_t))                                         \
    F(submit_goaway, int, (nghttp2_session *, uint8_t, int32_t, uint32_t, const uint8_t *, size_t))                    \
    F(submit_shutdown_notice, int, (nghttp2_session *))                                                                \
    F(submit_ping, int, (nghttp2_session *, uint8_t, const uint8_t *))                                                 \
    F(strerror, const char *, (int))

/* Missing in libraries that do not look at spaces around values at all. */
#define NGHTTP2_OPTIONAL(F) F(option_set_no_rfc9113_leading_and_trailing_ws_validation, void, (nghttp2_option *, int))

#define DECLARE(name, result, parameters) result(*name) parameters;
typedef struct {
    NGHTTP2_FUNCTIONS(DECLARE)
    NGHTTP2_OPTIONAL(DECLARE)
} Nghttp2;
#undef DECLARE

#endif
