import { expect, test } from 'bun:test'
import { foreignWitness } from '../../src/actors/log/witnesses.ts'
import { noteKeyText, noteKinds } from '../../src/protocol/log/note.ts'
import { witnessBytesMax } from '../../src/protocol/log/witnessing.ts'
import { scoped } from '../support/run/fixture.ts'
import { waitLimitMs } from '../support/run/limits.ts'

const key = noteKeyText({ name: 'w.example', kind: noteKinds.cosignature, publicKey: new Uint8Array(32).fill(1) })

/** A witness of somebody else's that answers so many bytes and does not say so before; `gone`: nobody reads on. */
function startWitness(bytes: number) {
  const gone = Promise.withResolvers<void>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      let left = bytes
      const body = new ReadableStream<Uint8Array>({
        pull: async (stream) => {
          const size = Math.min(left, 4_096)
          if (size === 0) return stream.close()
          left -= size
          stream.enqueue(new Uint8Array(size).fill(0x61))
          await new Promise(setImmediate)
        },
        cancel: () => gone.resolve(),
      })
      return new Response(body)
    },
  })
  const witness = foreignWitness(`${key} http://127.0.0.1:${server.port}`)
  const ask = (signal = AbortSignal.timeout(waitLimitMs)) => witness?.ask('old 0', {}, signal)
  return { ask, gone: gone.promise, stop: () => server.stop(true) }
}

test('§31: a foreign witness’s answer is read up to its bound, and its connection is closed there', async () => {
  await using fits = await scoped(startWitness(witnessBytesMax))
  await using longer = await scoped(startWitness(4 * witnessBytesMax))
  await using endless = await scoped(startWitness(Number.POSITIVE_INFINITY))
  expect(await fits.ask()).toEqual({ status: 200, text: 'a'.repeat(witnessBytesMax), seen: null })
  expect(await longer.ask()).toBeNull()
  const patience = AbortSignal.timeout(waitLimitMs)
  expect(await endless.ask(patience)).toBeNull()
  await endless.gone
  // It is the bound that ended it.
  expect(patience.aborted).toBe(false)
})
