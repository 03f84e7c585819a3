import { afterEach, expect, spyOn, test } from 'bun:test'
import { createNodeWatch, type NodeWatch } from '../../src/polling/node-watch.ts'

const spies: { mockRestore(): void }[] = []
let watch: NodeWatch | null = null
afterEach(() => {
  watch?.stop()
  for (const spy of spies.splice(0)) spy.mockRestore()
})

test.each([
  [0, 4_500],
  [0.25, 4_750],
  [0.5, 5_000],
  [0.75, 5_250],
])('§9: a poll every 5 s ± 10 %%: where chance is %d the next begins after %d ms', async (chance, waitMs) => {
  // A poll that takes no time, so that nothing is taken off the wait.
  spies.push(spyOn(performance, 'now').mockImplementation(() => 1_000))
  const waits = spyOn(globalThis, 'setTimeout')
  spies.push(waits)
  watch = createNodeWatch({
    probe: () => Promise.resolve({ kind: 'answered', reports: [] }),
    intervalMs: 5_000,
    timeoutMs: 2_000,
    random: () => chance,
    onResult: () => Promise.resolve(),
  })
  await watch.pollNow()
  expect(waits.mock.calls.map(([, ms]) => ms)).toContain(waitMs)
})
