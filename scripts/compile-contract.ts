import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import solc from 'solc'

/**
 * Compiles `contracts/PayoutSettlement.sol` and writes its ABI and bytecode beside it. Usage:
 * `node scripts/bun.mjs scripts/compile-contract.ts`. A test compares.
 */
const root = resolve(import.meta.dir, '..')
const source = 'contracts/PayoutSettlement.sol'
const output = join(root, 'contracts/PayoutSettlement.json')

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
export function compiledContract(): string {
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
  const made = answer.contracts[source]?.PayoutSettlement
  if (made === undefined) throw new Error('the contract was not compiled')
  const bytecode = `0x${made.evm.bytecode.object}`
  return `${JSON.stringify({ compiler: solc.version(), abi: made.abi, bytecode }, null, 2)}\n`
}

if (import.meta.main) writeFileSync(output, compiledContract())
