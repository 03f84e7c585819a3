/** One HTTP answer of the gateway, by a reader of its own: nothing of what is tested reads for the test. */
export interface Answer {
  readonly status: number
  readonly head: string
  /** UTF-8. */
  readonly body: string
  /** All of it came. */
  readonly whole: boolean
}

const headEnd = '\r\n\r\n'
const utf8 = (latin1: string) => Buffer.from(latin1, 'latin1').toString('utf8')

function readChunked(text: string, from: number): { body: string; at: number; whole: boolean } {
  let body = ''
  for (let at = from; ; ) {
    const lineEnd = text.indexOf('\r\n', at)
    const size = Number.parseInt(text.slice(at, lineEnd === -1 ? undefined : lineEnd), 16)
    if (lineEnd === -1 || !(size >= 0)) return { body, at: text.length, whole: false }
    if (size === 0) return { body, at: lineEnd + headEnd.length, whole: text.length >= lineEnd + headEnd.length }
    body += text.slice(lineEnd + 2, lineEnd + 2 + size)
    at = lineEnd + 2 + size + 2
  }
}

function readOne(text: string, from: number): { answer: Answer; at: number } | null {
  const end = text.indexOf(headEnd, from)
  if (end === -1) return null
  const head = text.slice(from, end)
  const status = Number(/^HTTP\/1\.1 ([0-9]{3})/.exec(head)?.[1] ?? Number.NaN)
  const begin = end + headEnd.length
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const { body, at, whole } = readChunked(text, begin)
    return { answer: { status, head, body: utf8(body), whole }, at }
  }
  const length = Number(/\r\ncontent-length: *([0-9]+)/i.exec(head)?.[1] ?? 0)
  const body = text.slice(begin, begin + length)
  return { answer: { status, head, body: utf8(body), whole: body.length === length }, at: begin + length }
}

/** What came on one connection (latin1), one answer after the other; what is none of them ends the list with status NaN. */
export function readAnswers(text: string): readonly Answer[] {
  const answers: Answer[] = []
  for (let at = 0; at < text.length; ) {
    const one = readOne(text, at)
    if (one === null) {
      answers.push({ status: Number.NaN, head: text.slice(at), body: '', whole: false })
      break
    }
    answers.push(one.answer)
    at = one.at
  }
  return answers
}
