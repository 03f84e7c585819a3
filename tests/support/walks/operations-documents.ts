import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The documents for whoever runs a gateway, in their order. */
export const operationsDocuments = ['install', 'nodes', 'run', 'back-up-and-upgrade', 'observe', 'secure'].map(
  (name) => `docs/operations/${name}.md`,
)

/** All of them, one behind the other. */
export const operationsText = (): string =>
  operationsDocuments.map((file) => readFileSync(join(import.meta.dir, '../../..', file), 'utf8')).join('\n')
