import { MarkerWatch } from './markers.ts'
import { secretsIn } from './secrets.ts'

/** What is no line of the log was written by somebody who should not: an error that nobody caught. */
function isFault(line: string): boolean {
  return line !== '' && (!line.startsWith('{"ts":') || line.includes('"level":"error"'))
}

/** Reads a log to its end and tells of each line that should not be there: markers, secrets, errors, and what is no line of it. */
export async function readForLeaks(output: ReadableStream<Uint8Array>, tell: (fault: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  const markers = new MarkerWatch((marker) => tell(`marker ${marker} in the log`))
  let rest = ''
  for await (const bytes of output) {
    const text = decoder.decode(bytes, { stream: true })
    markers.push(text)
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (isFault(line) || secretsIn(line).length > 0) tell(line)
  }
}

/** Reads a stream of events to its end, block by block. Rejects when the stream is cut. */
export async function readEventsForLeaks(
  output: ReadableStream<Uint8Array>,
  tell: (fault: string) => void,
): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of output) {
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks)
      for (const fault of leaksIn(block)) tell(`${fault} in the console: ${block.slice(0, 200)}`)
  }
}

/** Markers and secrets; neither belongs into anything but the answer to its own request. */
export function leaksIn(text: string): readonly string[] {
  const found: string[] = []
  new MarkerWatch((marker) => found.push(`marker ${marker}`)).push(text)
  return [...found, ...secretsIn(text).map((secret) => `secret ${secret}`)]
}
