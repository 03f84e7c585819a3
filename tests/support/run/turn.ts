/** One turn of the event loop, with the timers that are due and all that they resolve. */
export const turn = () => Bun.sleep(0)
