/** One event of a stream; `event` is `message` where the stream names none. */
export interface StreamEvent {
  readonly event: string
  readonly data: string
}

function parsed(block: string): StreamEvent | null {
  let event = 'message'
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) event = line.slice('event: '.length)
    else if (line.startsWith('data: ')) data.push(line.slice('data: '.length))
  }
  return data.length === 0 ? null : { event, data: data.join('\n') }
}

/** `fetch` instead of `EventSource`, which cannot send a header. `alive`: anything came, comments too. */
export async function* eventsOf(body: ReadableStream<Uint8Array>, alive: () => void = () => {}) {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      alive()
      rest += decoder.decode(value, { stream: true }).replaceAll('\r\n', '\n')
      const blocks = rest.split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = parsed(block)
        if (event !== null) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
