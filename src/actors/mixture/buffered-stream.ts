/** How a stream ended: the client read everything, left, or read nothing for too long. */
export type StreamEnd = 'sent' | 'client_gone' | 'slow_client'

export interface BufferedStream {
  readonly stream: ReadableStream<string>
  /** Sends the rest at once, because the gateway stops. */
  flush(): void
}

/**
 * Sends events that are all there already, as fast as the client reads. A client that reads nothing for `stalledMs` is
 * cut off, so that it cannot hold the answer for ever.
 */
export function bufferedStream(
  events: Iterator<string>,
  stalledMs: number,
  ended: (end: StreamEnd) => void,
): BufferedStream {
  let out: ReadableStreamDefaultController<string> | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  const end = (how: StreamEnd) => {
    clearTimeout(timer)
    out = null
    ended(how)
  }
  const send = (controller: ReadableStreamDefaultController<string>): boolean => {
    const { value, done } = events.next()
    if (done !== true) controller.enqueue(value)
    else {
      controller.close()
      end('sent')
    }
    return done !== true
  }
  const stream = new ReadableStream<string>({
    start: (controller) => {
      out = controller
    },
    pull: (controller) => {
      clearTimeout(timer)
      if (!send(controller)) return
      timer = setTimeout(() => {
        controller.error(new Error('the client reads nothing'))
        end('slow_client')
      }, stalledMs)
    },
    cancel: () => end('client_gone'),
  })
  return {
    stream,
    flush: () => {
      while (out !== null && send(out));
    },
  }
}
