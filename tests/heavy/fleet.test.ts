import { expect, test } from 'bun:test'
import { type LoadName, loads } from '../machines/placement/fleet/plan.ts'
import { outcomeOf } from '../machines/placement/fleet/simulation.ts'

const seeds = [1, 2, 3, 4, 5]
const peers = ['sticky', 'least in flight', 'P2C', 'SGLang', 'llm-d'] as const
/** Where another rule is better by more than the twentieth part, and how much worse ours may be. */
const known: Partial<Record<LoadName, number>> = {
  // What is late by chance looks like a queue where nothing else takes time.
  '64 slots, late by chance': 1.15,
}
/** Slots that a server tells are a bound that its owner may have set. Other rules send more, so they are asked where it holds for all. */
const bound: Partial<Record<LoadName, LoadName>> = {
  'a node that says 2 slots and has 8': 'a node that has 2 slots of 8',
}

for (const load of Object.keys(loads) as LoadName[]) {
  test(`§29: ${load}: never worse than the best of what others do, over five seeds`, () => {
    const best = Math.min(...peers.map((rule) => outcomeOf(rule, bound[load] ?? load, seeds).mean))
    expect(outcomeOf('Penstock', load, seeds).mean).toBeLessThan((known[load] ?? 1.05) * best)
  })
}
