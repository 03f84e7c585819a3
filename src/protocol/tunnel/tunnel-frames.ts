import { foreignJson } from '../json/foreign-json.ts'

/**
 * The frames of one tunnel (§22): `uint8 type`, `uint32-be stream id`, payload of at most 64 KiB, one frame in
 * one binary WebSocket message.
 */
const frameType = {
  open: 1,
  data: 2,
  end: 3,
  head: 4,
  reset: 5,
  window: 6,
  status: 7,
  goAway: 8,
} as const

export const headerBytes = 5
export const payloadBytesMax = 64 * 1024
export const streamIdMax = 0xff_ff_ff_ff
/** How many bytes a sender may have under way on one stream in each direction. */
export const windowBytes = 64 * 1024
/** A peer that follows the protocol cannot grant more than this with all its windows. */
const windowGrantMax = 0x7f_ff_ff_ff

/** `headers`: names in lower case. */
export interface OpenHead {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

export interface AnswerHead {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/** Why a stream ended early. An unknown code counts as `failed`. */
export type ResetCode = 'cancelled' | 'failed' | 'too_many_streams'

export type Frame =
  | { readonly kind: 'open'; readonly id: number; readonly head: OpenHead }
  /** `bytes` is a view into the message. */
  | { readonly kind: 'data'; readonly id: number; readonly bytes: Buffer }
  | { readonly kind: 'end'; readonly id: number }
  | { readonly kind: 'head'; readonly id: number; readonly head: AnswerHead }
  | { readonly kind: 'reset'; readonly id: number; readonly code: string }
  | { readonly kind: 'window'; readonly id: number; readonly bytes: number }
  | { readonly kind: 'status'; readonly id: 0; readonly text: string }
  | { readonly kind: 'goAway'; readonly id: 0 }

/** Why a message is not a frame. Each of these closes the tunnel. */
export type FrameFault = 'bad_length' | 'unknown_type' | 'bad_stream_id' | 'bad_payload'
export interface BrokenFrame {
  readonly kind: 'broken'
  readonly fault: FrameFault
}

const broken = (fault: FrameFault): BrokenFrame => ({ kind: 'broken', fault })

/** Never throws, whatever the bytes are. */
export function decodeFrame(message: Buffer): Frame | BrokenFrame {
  const { length } = message
  if (length < headerBytes || length > headerBytes + payloadBytesMax) return broken('bad_length')
  const type = message[0]
  const id = message.readUInt32BE(1)
  if (type === frameType.status || type === frameType.goAway) {
    return id === 0 ? connectionFrame(type, message) : broken('bad_stream_id')
  }
  if (type === undefined || type < frameType.open || type > frameType.goAway) return broken('unknown_type')
  if (id === 0) return broken('bad_stream_id')
  switch (type) {
    case frameType.data:
      return length === headerBytes ? broken('bad_length') : { kind: 'data', id, bytes: message.subarray(headerBytes) }
    case frameType.end:
      return length === headerBytes ? { kind: 'end', id } : broken('bad_length')
    case frameType.window:
      return windowFrame(id, message)
    default:
      return jsonFrame(type, id, message)
  }
}

function windowFrame(id: number, message: Buffer): Frame | BrokenFrame {
  if (message.length !== headerBytes + 4) return broken('bad_length')
  const bytes = message.readUInt32BE(headerBytes)
  return bytes === 0 || bytes > windowGrantMax ? broken('bad_payload') : { kind: 'window', id, bytes }
}

function connectionFrame(type: 7 | 8, message: Buffer): Frame | BrokenFrame {
  if (type === frameType.goAway) {
    return message.length === headerBytes ? { kind: 'goAway', id: 0 } : broken('bad_length')
  }
  const value = foreignJson(message.toString('utf8', headerBytes))
  return isObject(value)
    ? { kind: 'status', id: 0, text: message.toString('utf8', headerBytes) }
    : broken('bad_payload')
}

function jsonFrame(type: number, id: number, message: Buffer): Frame | BrokenFrame {
  const value = foreignJson(message.toString('utf8', headerBytes))
  if (!isObject(value)) return broken('bad_payload')
  if (type === frameType.open) {
    const head = openHeadOf(value)
    return head === null ? broken('bad_payload') : { kind: 'open', id, head }
  }
  if (type === frameType.head) {
    const head = answerHeadOf(value)
    return head === null ? broken('bad_payload') : { kind: 'head', id, head }
  }
  return typeof value.code === 'string' && value.code.length <= 64
    ? { kind: 'reset', id, code: value.code }
    : broken('bad_payload')
}

type JsonObject = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const fieldValue = /^[^\r\n\0]*$/
/** An origin-form target; no space and no control character can split a request line. */
const target = /^\/[\x21-\x7e]*$/
const methods = new Set(['GET', 'POST', 'PUT', 'DELETE'])

function headersOf(value: unknown): Readonly<Record<string, string>> | null {
  if (!isObject(value)) return null
  for (const name in value) {
    const text = value[name]
    if (typeof text !== 'string' || !token.test(name) || !fieldValue.test(text)) return null
  }
  return value as Readonly<Record<string, string>>
}

function openHeadOf({ method, path, headers }: JsonObject): OpenHead | null {
  if (typeof method !== 'string' || !methods.has(method)) return null
  if (typeof path !== 'string' || !target.test(path)) return null
  const fields = headersOf(headers)
  return fields === null ? null : { method, path, headers: fields }
}

function answerHeadOf({ status, headers }: JsonObject): AnswerHead | null {
  // Interim answers (1xx) are not allowed, because a stream has one head.
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) return null
  const fields = headersOf(headers)
  return fields === null ? null : { status, headers: fields }
}

/** Reads the head of a node's answer that another gateway passes on. null if it is not valid. */
export function readAnswerHead(value: unknown): AnswerHead | null {
  return isObject(value) ? answerHeadOf(value) : null
}

function header(type: number, id: number, payloadBytes: number): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payloadBytes)
  frame[0] = type
  frame.writeUInt32BE(id, 1)
  return frame
}

/** null: the payload would be larger than a frame may be. */
function jsonFrameOf(type: number, id: number, text: string): Buffer | null {
  const payloadBytes = Buffer.byteLength(text)
  if (payloadBytes > payloadBytesMax) return null
  const frame = header(type, id, payloadBytes)
  frame.write(text, headerBytes)
  return frame
}

export const openFrame = (id: number, head: OpenHead): Buffer | null =>
  jsonFrameOf(frameType.open, id, JSON.stringify(head))
export const headFrame = (id: number, head: AnswerHead): Buffer | null =>
  jsonFrameOf(frameType.head, id, JSON.stringify(head))
/** `text`: one JSON object. */
export const statusFrame = (text: string): Buffer | null => jsonFrameOf(frameType.status, 0, text)
export const endFrame = (id: number): Buffer => header(frameType.end, id, 0)
export const goAwayFrame = (): Buffer => header(frameType.goAway, 0, 0)

export function resetFrame(id: number, code: ResetCode): Buffer {
  const text = `{"code":"${code}"}`
  const frame = header(frameType.reset, id, text.length)
  frame.write(text, headerBytes, 'latin1')
  return frame
}

export function windowFrameOf(id: number, bytes: number): Buffer {
  const frame = header(frameType.window, id, 4)
  frame.writeUInt32BE(bytes, headerBytes)
  return frame
}

/** `bytes`: 1 to 65 536 of them. */
export function dataFrame(id: number, bytes: Uint8Array): Buffer {
  const frame = header(frameType.data, id, bytes.length)
  frame.set(bytes, headerBytes)
  return frame
}
