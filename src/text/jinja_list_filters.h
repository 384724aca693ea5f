/* The filters on sequences and mappings; jinja_filters.c has the others and the table of all. */
#ifndef KAIJU_TEXT_JINJA_LIST_FILTERS_H
#define KAIJU_TEXT_JINJA_LIST_FILTERS_H

#include "text/jinja_arguments.h"

typedef struct value filter_body(struct run *run, struct value value, const struct arguments *arguments);

filter_body filter_dictsort, filter_first, filter_items, filter_join, filter_last, filter_list, filter_map, filter_max,
    filter_min, filter_reject, filter_rejectattr, filter_reverse, filter_select, filter_selectattr, filter_sort,
    filter_sum, filter_unique;

#endif
