/* The files of the page, as the build puts them into the binary (web/CMakeLists.txt). */
#ifndef KAIJU_HTTP_PAGE_FILES_H
#define KAIJU_HTTP_PAGE_FILES_H

#include <stddef.h>

struct page_file {
  const char *path;       /* "/", "/page/chat.js" */
  const char *type;       /* for Content-Type */
  const char *entity_tag; /* of these bytes, with its quotes */
  const char *bytes;
  size_t size;
};

extern const struct page_file page_files[];
extern const size_t page_file_count;

#endif
