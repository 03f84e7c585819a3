import type { Static, TSchema } from '@sinclair/typebox'
import { type FieldFault, Problem, quoteValue } from '../../errors.ts'
import { findFaults } from '../validation/faults.ts'
import { fits } from '../validation/fits.ts'
import { dottedPath, sentenceOf } from '../validation/sentences.ts'
import { boundedText } from './foreign-json.ts'
import { keepPlaces, placesKeptMin } from './json-members.ts'
import { repeatedKey, scanJson } from './json-scan.ts'

/** Bodies of the admin routes (§17, credits and purge). */
export const adminBodyBytesMax = 16 * 1024
const plainJsonType = 'application/json'
const jsonType = /^application\/json\s*(;|$)/i

const tooLarge = (bytesMax: number) =>
  new Problem('payload_too_large', { detail: `The body may have at most ${bytesMax} bytes` })

const strictUtf8 = () => new TextDecoder('utf-8', { fatal: true })

/** Which content types a listener takes for JSON. `any of programs`: a browser must say JSON, a program may say anything (§28). */
export type JsonTypes = 'json' | 'any of programs'

/**
 * A web page can post to another origin without asking first, unless the content type is JSON. Browsers mark each such request
 * with its origin.
 */
const isBrowser = (headers: Headers) => headers.has('origin') || headers.has('sec-fetch-site')

/** Checks the headers that describe the body. JSON is always UTF-8 (RFC 8259). */
function checkForm({ headers }: Request, types: JsonTypes): void {
  const type = headers.get('content-type') ?? ''
  if (type !== plainJsonType && (types === 'json' || isBrowser(headers))) checkType(type)
  const coding = headers.get('content-encoding')
  if (coding !== null && coding !== 'identity') {
    throw new Problem('unsupported_media_type', { detail: 'Compressed bodies are not accepted' })
  }
}

function checkType(type: string): void {
  if (!jsonType.test(type)) throw new Problem('unsupported_media_type')
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(type)?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new Problem('unsupported_media_type', { detail: 'The body must be UTF-8' })
  }
}

/** One for all bodies that are whole: it keeps nothing from one to the next, even where one of them is refused. */
const wholeText = strictUtf8()

function strictText(body: ArrayBuffer): string {
  try {
    return wholeText.decode(body)
  } catch {
    throw notUtf8()
  }
}

/**
 * The text of a JSON body. Bun's own limit answers 413 without a body and before any hook runs, so the server's limit
 * is set out of reach and this one replaces it. Throws `unsupported_media_type`, `payload_too_large`, and
 * `invalid_json` for invalid UTF-8.
 */
export function readJsonText(request: Request, bytesMax: number, types: JsonTypes = 'json'): Promise<string> {
  checkForm(request, types)
  const length = request.headers.get('content-length')
  if (length === null) return readUnmeasured(request, bytesMax)
  if (Number(length) > bytesMax) throw tooLarge(bytesMax)
  return request.arrayBuffer().then(strictText)
}

/** The length shows only while it comes. */
async function readUnmeasured({ body }: Request, bytesMax: number): Promise<string> {
  if (body === null) return ''
  let text: string | null
  try {
    text = await boundedText(body, bytesMax, strictUtf8())
  } catch (error) {
    throw error instanceof TypeError ? notUtf8() : error
  }
  if (text === null) throw tooLarge(bytesMax)
  return text
}

function membersOf(value: unknown): number {
  let members = 0
  if (Array.isArray(value)) for (const item of value) members += typeof item === 'object' ? membersOf(item) : 0
  else {
    for (const key in value as Record<string, unknown> | null) {
      const member = (value as Record<string, unknown>)[key]
      members += typeof member === 'object' ? 1 + membersOf(member) : 1
    }
  }
  return members
}

const invalidJson = (detail: string) => new Problem('invalid_json', { detail })
const notUtf8 = () => invalidJson('The body is not UTF-8')

/**
 * Throws `invalid_json`, also for what breaks a bound of `json-scan.ts`, and for a key that comes twice: of the two a node
 * might read the other one. The parser keeps one of them, so that a text with more members than its value has such a key.
 */
export function parseJson(text: string): unknown {
  const places: number[] | null = text.length < placesKeptMin ? null : []
  const members = scanJson(text, places)
  if (typeof members === 'string') throw invalidJson(`The body ${members}`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's message would quote the body.
    throw new Problem('invalid_json')
  }
  if (typeof value !== 'object' || membersOf(value) === members) {
    if (places !== null && value !== null && typeof value === 'object') keepPlaces(value, text, places)
    return value
  }
  const key = repeatedKey(text)
  throw invalidJson(
    key === null ? 'A key comes twice in one object' : `The key ${quoteValue(key)} comes twice in one object`,
  )
}

/** `faults`: each `detail` is a sentence. The first one becomes the message, and names the `param`. */
export function invalidRequest(faults: readonly FieldFault[]): Problem {
  const [first] = faults
  if (first === undefined) return new Problem('invalid_request')
  return new Problem('invalid_request', {
    param: dottedPath(first.pointer ?? ''),
    detail: first.detail,
    errors: faults,
  })
}

/**
 * Reads a body and checks it as it was sent: Elysia's own validation drops unknown keys silently and turns `"5"` into
 * 5 (§1), so a strict schema (`additionalProperties: false`) is only strict here.
 */
export async function readBody<S extends TSchema>(
  request: Request,
  schema: S,
  bytesMax = adminBodyBytesMax,
): Promise<Static<S>> {
  return checkBody(await readJsonText(request, bytesMax), schema)
}

/** Checks a text whose exact bytes were signed. */
export function checkBody<S extends TSchema>(text: string, schema: S): Static<S> {
  return checkValue(parseJson(text), schema)
}

/** Checks a parsed value. Throws `invalid_request` with the faults. */
export function checkValue<S extends TSchema>(value: unknown, schema: S): Static<S> {
  if (fits(schema, value)) return value as Static<S>
  const faults = findFaults(schema, value)
  if (faults.length === 0) return value as Static<S>
  throw invalidRequest(faults.map((fault) => ({ pointer: fault.pointer, code: fault.code, detail: sentenceOf(fault) })))
}
