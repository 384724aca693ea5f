/* The terminal as a screen that a program redraws: entered, drawn to, and given back as it was. */
#ifndef KAIJU_CMD_TERMINAL_H
#define KAIJU_CMD_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct terminal {
  struct termios before; /* of standard input, if it is a terminal */
  bool has_keys, entered;
};

/* Columns and rows of the terminal on standard output; false if it is none, or one that cannot move its cursor. */
bool terminal_size(size_t *columns, size_t *rows);

/* Switches to the alternate screen; keys are read one by one and not shown. */
void terminal_enter(struct terminal *terminal);
/* Replaces what is on the screen by lines, each of which ends in a newline; those beyond the last row are left out. */
void terminal_draw(const char *lines, size_t rows);
/* Harmless if it was not entered. */
void terminal_leave(struct terminal *terminal);

#endif
