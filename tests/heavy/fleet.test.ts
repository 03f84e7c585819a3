import { expect, test } from 'bun:test'
import { type LoadName, loads } from '../machines/placement/fleet/plan.ts'
import { outcomeOf } from '../machines/placement/fleet/simulation.ts'

const seeds = [1, 2, 3, 4, 5]
const peers = ['sticky', 'least in flight', 'P2C', 'SGLang', 'llm-d'] as const
/** Where another rule is better by more than the twentieth part, and how much worse ours may be. */
const known: Partial<Record<LoadName, number>> = {
  // Slots that a server tells are a bound that its owner may have set: no call goes beyond them, though others would.
  'a node that says 2 slots and has 8': 6,
  // What is late by chance looks like a queue where nothing else takes time.
  '64 slots, late by chance': 1.15,
  // It has to be learnt anew, while the others are nearly full.
  'a node joins': 1.15,
  // A conversation is driven out while its next turn waits to be read elsewhere.
  'small caches': 1.1,
}

for (const load of Object.keys(loads) as LoadName[]) {
  test(`§29: ${load}: never worse than the best of what others do, over five seeds`, () => {
    const best = Math.min(...peers.map((rule) => outcomeOf(rule, load, seeds).mean))
    expect(outcomeOf('Penstock', load, seeds).mean).toBeLessThan((known[load] ?? 1.05) * best)
  }, 120_000)
}
