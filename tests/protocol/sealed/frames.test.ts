import { describe, expect, test } from 'bun:test'
import { emptyFrame, FrameReader, framed, splitFrames } from '../../../src/protocol/sealed/frames.ts'
import { paddedEvents, paddedJson, padme } from '../../../src/protocol/sealed/padding.ts'

const piece = (length: number, value: number) => new Uint8Array(length).fill(value)
const joined = (...pieces: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(pieces))

describe('§38: frames', () => {
  test('a message is cut into its frames, empty ones left out', () => {
    const message = joined(framed(piece(17, 1)), emptyFrame, framed(piece(40, 2)))
    expect(splitFrames(message)).toEqual([piece(17, 1), piece(40, 2)])
  })

  test('a length of 2^32-1, a cut frame, a frame without room for its tag, and too many frames are no message', () => {
    expect(splitFrames(joined(Uint8Array.of(0xff, 0xff, 0xff, 0xff), piece(100, 1)))).toBeNull()
    expect(splitFrames(framed(piece(40, 1)).subarray(0, 43))).toBeNull()
    expect(splitFrames(joined(framed(piece(40, 1)), Uint8Array.of(0, 0)))).toBeNull()
    expect(splitFrames(framed(piece(15, 1)))).toBeNull()
    expect(splitFrames(new Uint8Array(4 * 1_000_000))).toBeNull()
  })

  test('a reader gives the same frames however the bytes are cut', () => {
    const message = joined(framed(piece(17, 1)), emptyFrame, framed(piece(400, 2)), framed(piece(16, 3)))
    for (const step of [1, 2, 3, 5, 7, 19, 1_000]) {
      const reader = new FrameReader()
      const frames: Uint8Array[] = []
      for (let at = 0; at < message.length; at += step) {
        frames.push(...(reader.push(message.subarray(at, at + step)) ?? []).map((frame) => frame.slice()))
      }
      expect(frames).toEqual([piece(17, 1), piece(400, 2), piece(16, 3)])
      expect(reader.end()).toBe(true)
    }
  })

  test('a reader refuses a length beyond its bound at once, and an end in the middle of a frame', () => {
    expect(new FrameReader().push(Uint8Array.of(0xff, 0xff, 0xff, 0xff))).toBeNull()
    const reader = new FrameReader()
    expect(reader.push(framed(piece(40, 1)).subarray(0, 20))).toEqual([])
    expect(reader.end()).toBe(false)
  })

  test('a reader passes over empty frames, but not over a million of them', () => {
    const reader = new FrameReader()
    const many = new Uint8Array(4 * 100_000)
    for (let at = 0; at < 10; at++) expect(reader.push(many)).toEqual([])
    expect(reader.push(emptyFrame)).toBeNull()
  })
})

describe('§38: padding', () => {
  test('Padmé keeps lengths that differ by little apart by nothing, and adds at most 12 %', () => {
    expect([9, 1_000, 1_023, 100_000].map(padme)).toEqual([10, 1_024, 1_024, 100_352])
    for (let length = 2; length < 100_000; length += 37) {
      const padded = padme(length)
      expect(padded).toBeGreaterThanOrEqual(length)
      expect(padded).toBeLessThanOrEqual(Math.ceil(length * 1.12))
    }
  })

  test('padded JSON is the same value, and padded events are the same events', () => {
    const text = JSON.stringify({ a: 'é'.repeat(500) })
    expect(JSON.parse(paddedJson(text))).toEqual(JSON.parse(text))
    expect(Buffer.byteLength(paddedJson(text))).toBe(padme(Buffer.byteLength(text)))
    const events = paddedEvents('data: {"a":1}\n\n')
    expect(Buffer.byteLength(events)).toBe(256)
    expect(events).toMatch(/^data: \{"a":1\}\n\n: *\n\n$/)
  })
})
