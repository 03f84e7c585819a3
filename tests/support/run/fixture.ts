import { afterAll } from 'bun:test'
import { testLimitMs } from './limits.ts'

/** An agent is removed: it stops and its folder goes. A database is dropped. */
type Fixture = { remove(): unknown } | { stop(): unknown } | { close(): unknown } | { drop(): unknown }

/** Of what was started and still runs, the oldest first. */
const ends: { readonly file: string; readonly end: () => Promise<unknown> }[] = []

/** A file that could not be loaded has no afterAll: what it had started ends when the next file of its process starts something. */
async function endFilesBefore(): Promise<void> {
  while (ends[0] !== undefined && ends[0].file !== Bun.main)
    await ends
      .shift()
      ?.end()
      .catch(() => {})
}

async function end(started: Fixture | readonly Fixture[]): Promise<void> {
  if (Array.isArray(started)) await Promise.all(started.map(end))
  // An agent that can also be stopped keeps its folder then.
  else if ('remove' in started) await started.remove()
  else if ('stop' in started) await started.stop()
  else if ('close' in started) await started.close()
  else if ('drop' in started) await started.drop()
}

/**
 * Starts what all tests of a file share, at the top of the file: `const gateway = await fixture(startTestGateway())`. After the
 * last test `atEnd` is asked for what must then hold, and it is stopped, the newest first. Where one cannot be started no test
 * of the file runs, and those before it are stopped at once.
 */
export async function fixture<T extends Fixture | readonly Fixture[]>(
  starting: T | Promise<T>,
  atEnd: (started: T) => unknown = () => {},
): Promise<T> {
  afterAll(() => ends.pop()?.end())
  await endFilesBefore()
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no start within ${testLimitMs / 1_000} s`)), testLimitMs)
  try {
    const started = await Promise.race([starting, late.promise])
    const finish = async () => {
      try {
        await atEnd(started)
      } finally {
        await end(started)
      }
    }
    ends.push({ file: Bun.main, end: finish })
    return started
  } catch (error) {
    for (const before of ends.splice(0).reverse()) await before.end().catch(() => {})
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** For one test: `await using own = await scoped(startTestGateway())` is stopped where its block ends. */
export async function scoped<T extends Fixture>(starting: T | Promise<T>): Promise<T & AsyncDisposable> {
  const started = await starting
  return Object.assign(started, { [Symbol.asyncDispose]: () => end(started) })
}
