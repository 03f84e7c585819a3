import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { bases } from './bases.ts'
import { casesOf } from './cases.ts'
import { edges } from './edges.ts'
import { knowns } from './knowns.ts'

/**
 * Writes `docs/verify/mutations.json` and `docs/verify/ed25519.json`: files and signatures with the one verdict that every
 * verifier of ours must give. Usage: `node scripts/bun.mjs scripts/verdicts/write.ts`. A test compares.
 */
export async function mutationsText(): Promise<string> {
  const made = await bases()
  const cases = casesOf(made)
  const lines = [
    `"about": ${JSON.stringify('A case is a base after its edits, judged by somebody who knows what `known` names. Made by scripts/verdicts.')}`,
    `"known": ${JSON.stringify(knowns(made), null, 1)}`,
    `"bases": ${JSON.stringify(made.texts, null, 1)}`,
    `"cases": [\n${cases.map((one) => JSON.stringify(one)).join(',\n')}\n]`,
  ]
  return `{\n${lines.join(',\n')}\n}\n`
}

export function edgesText(): string {
  return `{\n"cases": [\n${edges()
    .map((one) => JSON.stringify(one))
    .join(',\n')}\n]\n}\n`
}

if (import.meta.main) {
  const folder = join(resolve(import.meta.dir, '../..'), 'docs/verify')
  writeFileSync(join(folder, 'mutations.json'), await mutationsText())
  writeFileSync(join(folder, 'ed25519.json'), edgesText())
}
