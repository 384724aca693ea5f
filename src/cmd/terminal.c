#include "cmd/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"

bool terminal_size(size_t *columns, size_t *rows) {
  const char *kind = getenv("TERM");
  struct winsize size;
  if (!isatty(STDOUT_FILENO) || !kind || strcmp(kind, "dumb") == 0) return false;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  *columns = known ? size.ws_col : 80;
  *rows = known ? size.ws_row : 24;
  return true;
}

static void write_all(const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = write(STDOUT_FILENO, bytes, length);
    if (written <= 0) return;
    bytes += written;
    length -= (size_t)written;
  }
}

static void write_text(const char *text) { write_all(text, strlen(text)); }

void terminal_enter(struct terminal *terminal) {
  terminal->has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &terminal->before) == 0;
  terminal->entered = true;
  if (terminal->has_keys) {
    struct termios keys = terminal->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    /* A suspended program would leave its screen behind. */
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  write_text("\033[?1049h\033[?25l\033[2J"); /* alternate screen, no cursor, cleared */
}

void terminal_draw(const char *lines, size_t rows) {
  struct buffer frame = {0};
  buffer_append_text(&frame, "\033[H");
  for (size_t row = 0; *lines && row < rows; row++) {
    size_t length = strcspn(lines, "\n");
    /* No newline behind the last row: the screen would scroll. Each line erases what it does not cover: no flicker. */
    buffer_append_text(&frame, row > 0 ? "\r\n" : "");
    buffer_append(&frame, lines, length);
    buffer_append_text(&frame, "\033[K");
    lines += length + (lines[length] == '\n');
  }
  buffer_append_text(&frame, "\033[J");
  if (!buffer_failed(&frame)) write_all(buffer_text(&frame), frame.length);
  buffer_free(&frame);
}

void terminal_leave(struct terminal *terminal) {
  if (!terminal->entered) return;
  terminal->entered = false;
  write_text("\033[?25h\033[?1049l");
  if (terminal->has_keys) tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
}
