#include <solsend/event.h>

const char *solsend_event_name(uint32_t kind)
{
    switch (kind) {
    case SOLSEND_EVENT_WRITTEN:
        return "written";
    case SOLSEND_EVENT_ACKED:
        return "acked";
    case SOLSEND_EVENT_EXPIRED:
        return "expired";
    case SOLSEND_EVENT_CLOSED:
        return "closed";
    case SOLSEND_EVENT_STOPPED:
        return "stopped";
    case SOLSEND_EVENT_CANCELLED:
        return "cancelled";
    case SOLSEND_EVENT_LINK_CONNECTED:
        return "link connected";
    case SOLSEND_EVENT_LINK_ADMITTED:
        return "link admitted";
    case SOLSEND_EVENT_LINK_CLOSED:
        return "link closed";
    case SOLSEND_EVENT_LINK_PATH:
        return "link path";
    case SOLSEND_EVENT_LINK_PARKED:
        return "link parked";
    case SOLSEND_EVENT_LINK_CREDIT:
        return "link credit";
    case SOLSEND_EVENT_LINK_KEY:
        return "link key";
    default:
        return "?";
    }
}

int solsend_event_is_terminal(uint32_t kind)
{
    return kind >= SOLSEND_EVENT_ACKED && kind <= SOLSEND_EVENT_CANCELLED;
}
