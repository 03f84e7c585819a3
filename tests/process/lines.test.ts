import { expect, test } from 'bun:test'
import { linesOf, wholeLinesOf } from '../../src/processes/messages.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const streamOf = (parts: readonly Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    },
  })

test('lines that came together are passed on together, and none is cut', async () => {
  const water = bytes('水\n')
  const parts = [bytes('a\nb\n\nc'), bytes('d\n'), water.slice(0, 2), water.slice(2), bytes('end')]
  expect(await Array.fromAsync(wholeLinesOf(streamOf(parts)))).toEqual(['a\nb\n\n', 'cd\n', '水\n', 'end\n'])
  expect(await Array.fromAsync(linesOf(streamOf(parts)))).toEqual(['a', 'b', '', 'cd', '水', 'end'])
})

test('a line without an end costs no more memory than its bound', async () => {
  const half = new Uint8Array(600 * 1024).fill(97)
  await expect(Array.fromAsync(linesOf(streamOf([half, half])))).rejects.toThrow('a line without an end')
})
