#include "handler.h"
