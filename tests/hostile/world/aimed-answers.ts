/** Answers that are made to cost a gateway more than they cost their node, each of about so many bytes. */
export interface Aim {
  readonly name: string
  /** The bytes of a stream, all of which go out in one write. */
  stream?(bytes: number): string
  /** A whole answer. */
  whole?(bytes: number): string
  /** No answer has so much of it: an error is the right end. */
  readonly exceeds?: true
}

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
export const streamEnd = `data: ${JSON.stringify({
  choices: [{ index: 0, delta: {}, text: '', finish_reason: 'stop' }],
  usage,
})}\n\ndata: [DONE]\n\n`

/** `text`: for completions of a text, which read no delta, as chat reads no text. */
const frame = (delta: string, more = '') => `data: {"choices":[{"index":0,"delta":{${delta}},"text":"a"${more}}]}\n\n`
const repeated = (piece: string, bytes: number) => piece.repeat(Math.max(1, Math.floor(bytes / piece.length)))
/** Pieces that differ, joined, until there are so many bytes. */
function counted(piece: (at: number) => string, bytes: number, between = ''): string {
  const pieces: string[] = []
  for (let size = 0; size < bytes; size += pieces.at(-1)?.length ?? 0) pieces.push(piece(pieces.length))
  return pieces.join(between)
}
const streamed = (frames: string) => `${frames}${streamEnd}`
const message = (members: string, more = '') =>
  `{"choices":[{"index":0,"message":{"role":"assistant",${members}},"text":"a","finish_reason":"stop"${more}}],"usage":${JSON.stringify(usage)}}`

const call = (index: number, input = '{}') =>
  `{"index":${index},"id":"c${index}","type":"function","function":{"name":"f","arguments":"${input}"}}`
const token = '{"token":"y","logprob":-1.5,"bytes":[121],"top_logprobs":[]}'
/** Lists within the bound of one list. */
const lists = (item: string, bytes: number) => `[${repeated(`[${Array(20_000).fill(item).join(',')}],`, bytes)}0]`

/** Content in chunks of an ordinary size: what any byte of a node costs. */
export const plain: Aim = {
  name: 'plain content',
  stream: (bytes) => streamed(repeated(frame(`"content":"${'twenty words of text '.repeat(10)}"`), bytes)),
  whole: (bytes) => message(`"content":"${repeated('a', bytes)}"`),
}

export const aims: readonly Aim[] = [
  plain,
  {
    name: 'tool calls in one chunk',
    stream: (bytes) => streamed(frame(`"tool_calls":[${counted((at) => call(at), bytes, ',')}]`)),
    whole: (bytes) => message(`"content":null,"tool_calls":[${counted((at) => call(at), bytes, ',')}]`),
    exceeds: true,
  },
  {
    name: 'a tool call a chunk',
    stream: (bytes) => streamed(counted((at) => frame(`"tool_calls":[${call(at)}]`), bytes)),
    exceeds: true,
  },
  {
    name: 'one call, a unit a chunk',
    stream: (bytes) =>
      streamed(
        frame(`"tool_calls":[${call(0, '')}]`) +
          repeated(frame(`"tool_calls":[{"index":0,"function":{"arguments":"1"}}]`), bytes),
      ),
  },
  {
    name: 'calls of huge indexes',
    stream: (bytes) => streamed(counted((at) => frame(`"tool_calls":[${call(2_147_483_000 + (at % 200))}]`), bytes)),
  },
  {
    name: 'a name that grows',
    stream: (bytes) =>
      streamed(
        repeated(
          frame(`"tool_calls":[{"index":0,"id":"c","function":{"name":"${'n'.repeat(40)}","arguments":"1"}}]`),
          bytes,
        ),
      ),
  },
  {
    name: 'content and reasoning in turn',
    stream: (bytes) => streamed(repeated(frame('"content":"a"') + frame('"reasoning_content":"b"'), bytes)),
    exceeds: true,
  },
  {
    name: 'content and reasoning in each chunk',
    stream: (bytes) => streamed(repeated(frame('"content":"a","reasoning_content":"b"'), bytes)),
    exceeds: true,
  },
  {
    name: 'content and a call in turn',
    stream: (bytes) => streamed(repeated(frame('"content":"a"') + frame(`"tool_calls":[${call(0)}]`), bytes)),
    exceeds: true,
  },
  { name: 'small chunks', stream: (bytes) => streamed(repeated(frame('"content":"a"'), bytes)) },
  {
    name: 'small chunks that differ',
    stream: (bytes) => streamed(counted((at) => frame('"content":"a"', `,"at":${at}`), bytes)),
  },
  { name: 'empty deltas', stream: (bytes) => streamed(repeated('data: {"choices":[{"delta":{}}]}\n\n', bytes)) },
  { name: 'no choices', stream: (bytes) => streamed(repeated('data: {}\n\n', bytes)) },
  { name: 'comments', stream: (bytes) => streamed(repeated(':\n', bytes)) },
  { name: 'lines that are no JSON', stream: (bytes) => streamed(repeated('data: [\n\n', bytes)) },
  { name: 'an event of many lines', stream: (bytes) => streamed(`${repeated('data: \n', bytes)}\n`), exceeds: true },
  {
    name: 'one chunk of text',
    stream: (bytes) => streamed(frame(`"content":"${repeated('a', bytes)}"`)),
    whole: (bytes) => message(`"content":"${repeated('a', bytes)}"`),
  },
  {
    name: 'one chunk of escapes',
    stream: (bytes) => streamed(frame(`"content":"${repeated('\\u0001', bytes)}"`)),
    whole: (bytes) => message(`"content":"${repeated('\\u0001', bytes)}"`),
  },
  {
    name: 'one chunk of Chinese',
    stream: (bytes) => streamed(frame(`"content":"${repeated('漢', bytes / 3)}"`)),
    whole: (bytes) => message(`"content":"${repeated('漢', bytes / 3)}"`),
  },
  {
    name: 'many choices in one chunk',
    stream: (bytes) => streamed(`data: {"choices":[${repeated('{},', bytes)}{}]}\n\n`),
    whole: (bytes) => `{"choices":[${repeated('{"message":{},"text":""},', bytes)}{"message":{},"text":""}]}`,
    exceeds: true,
  },
  {
    name: 'choices of many chunks',
    stream: (bytes) => streamed(repeated(`data: {"choices":[${Array(100).fill('{}').join(',')}]}\n\n`, bytes)),
    exceeds: true,
  },
  {
    name: 'parts of content',
    stream: (bytes) => streamed(frame(`"content":[${repeated('{"type":"text","text":"a"},', bytes)}{}]`)),
    whole: (bytes) => message(`"content":[${repeated('{"type":"text","text":"a"},', Math.min(bytes, 2_000_000))}{}]`),
  },
  {
    name: 'annotations, a list a chunk',
    stream: (bytes) =>
      streamed(repeated(frame(`"content":"a","annotations":[${Array(40).fill('{"a":1}').join(',')}]`), bytes)),
  },
  {
    name: 'numbers in one chunk',
    stream: (bytes) => streamed(frame(`"content":"a","a":${lists('1', bytes)}`)),
    whole: (bytes) => message(`"content":"a","a":${lists('1', Math.min(bytes, 1_900_000))}`),
  },
  {
    name: 'numbers that are longer written out',
    stream: (bytes) => streamed(repeated(frame(`"content":"a","a":[${Array(200).fill('1e20').join(',')}]`), bytes)),
    whole: (bytes) => message(`"content":"a","a":${lists('1e20', bytes / 3)}`),
  },
  {
    name: 'names that differ',
    stream: (bytes) => streamed(frame(`"content":"a","a":[${counted((at) => `{"k${at}":0}`, bytes, ',')}]`)),
    whole: (bytes) =>
      message(`"content":"a","a":[${counted((at) => `{"k${at}":0}`, Math.min(bytes, 1_200_000), ',')}]`),
  },
  {
    name: 'names that differ, a chunk each',
    stream: (bytes) => streamed(counted((at) => frame(`"content":"a","k${at}":0`), bytes)),
  },
  {
    name: 'logprobs',
    stream: (bytes) =>
      streamed(frame('"content":"a"', `,"logprobs":{"content":[${repeated(`${token},`, bytes)}${token}]}`)),
    whole: (bytes) =>
      message(
        '"content":"a"',
        `,"logprobs":{"content":[${repeated(`${token},`, Math.min(bytes, 5_000_000))}${token}]}`,
      ),
  },
]
