import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler, type ValueError, ValueErrorType } from '@sinclair/typebox/compiler'
import { type FieldFault, Problem, quoteValue } from '../errors.ts'

export const jsonDepthMax = 64
/** Bodies of the admin routes (decisions §17, credits and purge). */
export const adminBodyBytesMax = 16 * 1024
const faultsMax = 8
const jsonType = /^application\/json\s*(;|$)/i

const tooLarge = (bytesMax: number) =>
  new Problem('payload_too_large', { detail: `The body may have at most ${bytesMax} bytes` })

/** A body of unknown length is read up to the limit and no further. */
async function readBounded(body: ReadableStream<Uint8Array>, bytesMax: number): Promise<string> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let text = ''
  for (let size = 0; ; ) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    size += value.byteLength
    if (size > bytesMax) {
      void reader.cancel()
      throw tooLarge(bytesMax)
    }
    text += decoder.decode(value, { stream: true })
  }
}

/**
 * The text of a JSON body. Bun's own limit answers 413 without a body and before any hook runs, so the server's limit
 * is out of reach and this one speaks for it. Throws `unsupported_media_type` and `payload_too_large`.
 */
export async function readJsonText(request: Request, bytesMax: number): Promise<string> {
  const { headers } = request
  if (!jsonType.test(headers.get('content-type') ?? '')) throw new Problem('unsupported_media_type')
  if (headers.has('content-encoding') && headers.get('content-encoding') !== 'identity') {
    throw new Problem('unsupported_media_type', { detail: 'Compressed bodies are not accepted' })
  }
  const length = headers.get('content-length')
  if (length === null) return request.body === null ? '' : readBounded(request.body, bytesMax)
  if (Number(length) > bytesMax) throw tooLarge(bytesMax)
  return request.text()
}

/** True when arrays and objects nest deeper than `levels`. Walks containers only, so long texts cost nothing. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) {
    for (const item of value) if (isDeeperThan(item, levels - 1)) return true
    return false
  }
  for (const key in value) if (isDeeperThan((value as Record<string, unknown>)[key], levels - 1)) return true
  return false
}

/** Throws `invalid_json`, also for what nests deeper than 64 levels. */
export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's message quotes the body.
    throw new Problem('invalid_json')
  }
  if (isDeeperThan(value, jsonDepthMax)) {
    throw new Problem('invalid_json', { detail: `The body nests deeper than ${jsonDepthMax} levels` })
  }
  return value
}

/** `/messages/0/role` → `messages[0].role`. */
export function dottedPath(pointer: string): string {
  const parts = pointer.split('/').slice(1)
  const path = parts
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((all, part) => (/^[0-9]+$/.test(part) ? `${all}[${part}]` : all === '' ? part : `${all}.${part}`), '')
  return quoteValue(path)
}

function faultCode({ type }: ValueError): string {
  switch (type) {
    case ValueErrorType.ObjectAdditionalProperties:
      return 'unknown_field'
    case ValueErrorType.ObjectRequiredProperty:
      return 'required'
    default:
      return 'invalid'
  }
}

/** "None of the variants" helps nobody: the faults of the variant that the value was meant to be. */
function* unfolded(errors: Iterable<ValueError>): Generator<ValueError> {
  for (const error of errors) {
    const variants = error.type === ValueErrorType.Union ? error.errors.map((variant) => [...variant]) : []
    const meant = variants.find((faults) => faults.some(({ path }) => path.length > error.path.length))
    if (meant === undefined) yield error
    else yield* unfolded(meant)
  }
}

/** TypeBox's messages name the schema's expectation, never the caller's value. */
export function bodyFaults(check: TypeCheck<TSchema>, value: unknown): FieldFault[] {
  const faults: FieldFault[] = []
  for (const error of unfolded(check.Errors(value))) {
    if (faults.length === faultsMax) break
    if (faults.at(-1)?.pointer === error.path) continue
    faults.push({ pointer: error.path, code: faultCode(error), detail: error.message })
  }
  return faults
}

export function invalidRequest(faults: readonly FieldFault[]): Problem {
  const [first] = faults
  if (first === undefined) return new Problem('invalid_request')
  const param = dottedPath(first.pointer ?? '')
  const detail = param === '' ? first.detail : `${param}: ${first.detail}`
  return new Problem('invalid_request', { param, detail, errors: faults })
}

const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>()

/**
 * Reads a body and checks it as it was sent: Elysia's own validation drops unknown keys silently and turns `"5"` into
 * 5 (decisions §1), so a strict schema (`additionalProperties: false`) is only strict here.
 */
export async function readBody<S extends TSchema>(
  request: Request,
  schema: S,
  bytesMax = adminBodyBytesMax,
): Promise<Static<S>> {
  return checkBody(await readJsonText(request, bytesMax), schema)
}

/** The same for a text at hand, where the exact bytes were signed. */
export function checkBody<S extends TSchema>(text: string, schema: S): Static<S> {
  return checkValue(parseJson(text), schema)
}

/** The same for a value that was parsed. Throws `invalid_request` with what is wrong. */
export function checkValue<S extends TSchema>(value: unknown, schema: S): Static<S> {
  let check = compiled.get(schema)
  if (check === undefined) {
    check = TypeCompiler.Compile<TSchema>(schema)
    compiled.set(schema, check)
  }
  if (!check.Check(value)) throw invalidRequest(bodyFaults(check, value))
  return value as Static<S>
}
