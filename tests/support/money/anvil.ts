import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Hex } from 'viem'
import { createPublicClient, createWalletClient, http, parseAbi } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { waitUntil } from '../run/wait-until.ts'

const root = join(import.meta.dir, '../../..')
/** The first two accounts of every anvil: no secrets. */
export const operatorKey: Hex = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
export const strangerKey: Hex = '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d'
export const chainId = 31_337

export interface Anvil {
  readonly url: string
  rpc<T = unknown>(method: string, params?: readonly unknown[]): Promise<T>
  mine(blocks?: number): Promise<void>
  stop(): Promise<void>
}

function binary(): string {
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  const require = createRequire(import.meta.url)
  const at = require.resolve(`@foundry-rs/anvil-${process.platform}-${architecture}/package.json`)
  return join(dirname(at), 'bin/anvil')
}

/** A chain of its own; a block is final two blocks later. `mining`: each transaction makes a block at once. */
export async function startAnvil({ mining = true }: { readonly mining?: boolean } = {}): Promise<Anvil> {
  const args = ['--port', '0', '--slots-in-an-epoch', '1', ...(mining ? [] : ['--no-mining'])]
  const child = Bun.spawn([binary(), ...args], { stdout: 'pipe', stderr: 'inherit', stdin: 'ignore' })
  const decoder = new TextDecoder()
  let text = ''
  void (async () => {
    for await (const bytes of child.stdout) text += decoder.decode(bytes)
  })()
  await waitUntil('anvil listens', () => /Listening on \S+/.test(text))
  const url = `http://${/Listening on (\S+)/.exec(text)?.[1]}`
  const rpc: Anvil['rpc'] = async <T>(method: string, params: readonly unknown[] = []) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const answer = (await response.json()) as { result?: T; error?: { message: string } }
    if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`)
    return answer.result as T
  }
  return {
    url,
    rpc,
    mine: async (blocks = 1) => void (await rpc('anvil_mine', [`0x${blocks.toString(16)}`])),
    stop: async () => {
      child.kill()
      await child.exited
    },
  }
}

export const compiled = JSON.parse(readFileSync(join(root, 'contracts/PayoutSettlement.json'), 'utf8')) as {
  readonly abi: readonly object[]
  readonly bytecode: Hex
}
export const contractAbi = parseAbi([
  'function settleBatch(bytes32 batchId, bytes32 root, uint256 total, uint256 count) payable',
  'function claim(bytes32 batchId, bytes32 payoutId, address payee, uint256 amount, bytes32[] proof)',
  'function root(bytes32 batchId) view returns (bytes32)',
  'function remaining(bytes32 batchId) view returns (uint256)',
  'function claimed(bytes32 batchId, bytes32 payoutId) view returns (bool)',
  'function operator() view returns (address)',
  'event PayoutBatchSettled(bytes32 indexed batchId, bytes32 indexed root, uint256 total, uint256 count)',
  'event PayoutClaimed(bytes32 indexed batchId, bytes32 indexed payoutId, address indexed payee, uint256 amount)',
  'error NotOperator()',
  'error AlreadySettled()',
  'error EmptyRoot()',
  'error WrongValue()',
  'error AlreadyClaimed()',
  'error InvalidProof()',
  'error TransferFailed()',
])

export function clients(anvil: Anvil, key: Hex = operatorKey) {
  const account = privateKeyToAccount(key)
  const transport = http(anvil.url)
  return { account, reader: createPublicClient({ transport }), writer: createWalletClient({ account, transport }) }
}

/** The settlement contract, for this operator; mined whatever the mode. */
export async function deploy(anvil: Anvil, operator: Hex = privateKeyToAccount(operatorKey).address): Promise<Hex> {
  const { reader, writer } = clients(anvil, strangerKey)
  const hash = await writer.deployContract({
    abi: compiled.abi as never,
    bytecode: compiled.bytecode,
    args: [operator] as never,
    chain: null,
  })
  await anvil.mine()
  const { contractAddress } = await reader.waitForTransactionReceipt({ hash, pollingInterval: 20 })
  if (contractAddress == null) throw new Error('the contract was not deployed')
  return contractAddress
}

type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } }
/** null: pass it on. */
export type Intercept = (call: {
  readonly method: string
  readonly params: readonly unknown[]
}) => Answer | null | Promise<Answer | null>

export interface RpcProxy {
  readonly url: string
  /** Methods that were asked for, in order. */
  readonly calls: string[]
  intercept: Intercept | null
  down: boolean
  stop(): void
}

/** An RPC between the gateway and the chain that can fail, lie and lose. */
export function rpcProxy(target: string): RpcProxy {
  const proxy = { calls: [] as string[], intercept: null as Intercept | null, down: false }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      // A gateway of another test may still look for a node that had this port.
      if (request.method !== 'POST') return new Response(null, { status: 404 })
      if (proxy.down) return new Response('gateway down', { status: 502 })
      const call = (await request.json()) as { id: number; method: string; params: readonly unknown[] }
      proxy.calls.push(call.method)
      const answer = (await proxy.intercept?.({ method: call.method, params: call.params ?? [] })) ?? null
      if (answer !== null) return Response.json({ jsonrpc: '2.0', id: call.id, ...answer })
      const passed = await fetch(target, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(call),
      })
      return new Response(await passed.text(), { headers: { 'content-type': 'application/json' } })
    },
  })
  return Object.assign(proxy, { url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) })
}
