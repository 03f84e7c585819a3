import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import solc from 'solc'

/**
 * Compiles the contracts and writes ABI and bytecode of each beside it. Usage:
 * `node scripts/bun.mjs scripts/compile-contract.ts`. A test compares.
 */
const root = resolve(import.meta.dir, '..')
/** The first one stays for the batches that it holds. */
export const contractNames = ['PayoutSettlement', 'PayoutSettlementV2'] as const
export type ContractName = (typeof contractNames)[number]

interface SolcOutput {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts: Readonly<
    Record<
      string,
      Readonly<
        Record<string, { readonly abi: unknown; readonly evm: { readonly bytecode: { readonly object: string } } }>
      >
    >
  >
}

/** The text of the committed file, made anew. */
export function compiledContract(name: ContractName = 'PayoutSettlement'): string {
  const source = `contracts/${name}.sol`
  const input = {
    language: 'Solidity',
    sources: { [source]: { content: readFileSync(join(root, source), 'utf8') } },
    settings: {
      optimizer: { enabled: true, runs: 200 },
      // Runs on chains without the newer opcodes; no hash of the sources' paths in the bytecode.
      evmVersion: 'paris',
      metadata: { bytecodeHash: 'none' },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  }
  const read = (path: string) => ({ contents: readFileSync(join(root, 'node_modules', path), 'utf8') })
  const answer = JSON.parse(solc.compile(JSON.stringify(input), { import: read })) as SolcOutput
  if (answer.errors !== undefined && answer.errors.length > 0) {
    throw new Error(answer.errors.map(({ formattedMessage }) => formattedMessage).join('\n'))
  }
  const made = answer.contracts[source]?.[name]
  if (made === undefined) throw new Error('the contract was not compiled')
  const bytecode = `0x${made.evm.bytecode.object}`
  return `${JSON.stringify({ compiler: solc.version(), abi: made.abi, bytecode }, null, 2)}\n`
}

if (import.meta.main) {
  for (const name of contractNames) writeFileSync(join(root, `contracts/${name}.json`), compiledContract(name))
}
