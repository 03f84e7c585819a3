import type { Hex } from 'viem'
import type { BatchFacts, Inclusion } from '../../machines/charts/payout-batch.ts'
import { boundedText } from '../../protocol/json/foreign-json.ts'
import { scanJson } from '../../protocol/json/json-scan.ts'

/** The fields of an RPC's answer that the gateway reads. */
export interface RpcReceipt {
  readonly status: Hex
  readonly transactionHash: Hex
  readonly blockNumber: Hex
  readonly blockHash: Hex
  readonly logs: readonly { readonly address: string; readonly topics: readonly string[] }[]
}
export interface RpcTransaction {
  readonly blockNumber: Hex | null
  readonly maxFeePerGas?: Hex
  readonly gasPrice?: Hex
}
export interface RpcBlock {
  readonly number: Hex
  readonly hash: Hex
  readonly baseFeePerGas?: Hex
}
export interface RpcLog {
  readonly transactionHash: Hex
  readonly blockNumber: Hex
  readonly blockHash: Hex
}

/** Maps the error of an RPC to one of our codes. */
export function rpcCode(error: unknown): string {
  const text = error instanceof Error ? `${error.message} ${(error as { details?: string }).details ?? ''}` : ''
  if (/insufficient funds/i.test(text)) return 'insufficient_funds'
  if (/nonce too low|nonce is too low/i.test(text)) return 'nonce_too_low'
  if (/already known|already imported|known transaction/i.test(text)) return 'already_known'
  if (/replacement transaction underpriced|replacement fee too low/i.test(text)) return 'replacement_underpriced'
  if (/less than block base fee|transaction underpriced|fee cap.*too low|fee too low/i.test(text)) return 'underpriced'
  if (/execution reverted|revert/i.test(text)) return 'would_revert'
  if (/timed out|timeout/i.test(text)) return 'rpc_timeout'
  return 'rpc_failed'
}

/** True if the RPC was not reached, so that it has refused nothing. */
export const isTransportFailure = (error: unknown) =>
  error instanceof Error && (error.name === 'HttpRequestError' || error.name === 'TimeoutError')

export const inclusionOf = (seen: RpcReceipt | RpcLog): Inclusion => ({
  hash: seen.transactionHash,
  blockNumber: BigInt(seen.blockNumber).toString(),
  blockHash: seen.blockHash,
})

/** Every answer that the gateway reads is far shorter. */
const answerBytesMax = 4 * 1024 * 1024

/** `fetch` for viem, which parses what it gets. An answer beyond the bounds of foreign JSON counts as a failure. */
export async function fetchRpc(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const { status, headers, body } = await fetch(input, init)
  const text = body === null ? '' : await boundedText(body, answerBytesMax)
  if (text === null || typeof scanJson(text) === 'string') throw new Error('the RPC answered too much')
  return new Response(text, { status, headers: { 'content-type': headers.get('content-type') ?? 'application/json' } })
}

/** The text is for the operator. */
export class SettlementPackagesError extends Error {
  override readonly name = 'SettlementPackagesError'
}

/** viem is large, so it is installed and loaded only if a blockchain is configured. */
export async function loadViem() {
  try {
    const [viem, accounts] = await Promise.all([import('viem'), import('viem/accounts')])
    return { viem, accounts }
  } catch {
    throw new SettlementPackagesError('Settlement needs packages that are not installed. Run: npm ci --omit=dev')
  }
}

/** Ethereum nodes accept a replacement from 10 % more. */
const replacementPercent = 113n

type Rpc = <T>(method: string, params: readonly unknown[]) => Promise<T>

/** Today's fees, wei for each unit of gas, or enough more than the last offer with the nonce that this batch still has. */
export async function feesOf({ transactions, txNonce }: BatchFacts, viem: typeof import('viem'), rpc: Rpc) {
  const before = txNonce === null ? undefined : transactions.at(-1)
  const previous = before === undefined ? null : viem.parseTransaction(before.raw as Hex)
  const raised = (now: bigint, old: bigint | undefined) => {
    const least = old === undefined ? 0n : (old * replacementPercent) / 100n + 1n
    return now > least ? now : least
  }
  const { baseFeePerGas } = await rpc<RpcBlock>('eth_getBlockByNumber', ['latest', false])
  if (baseFeePerGas === undefined) {
    const gasPrice = BigInt(await rpc<Hex>('eth_gasPrice', []))
    return { type: 'legacy' as const, gasPrice: raised(gasPrice, previous?.gasPrice) }
  }
  const tip = BigInt(await rpc<Hex>('eth_maxPriorityFeePerGas', []))
  const maxPriorityFeePerGas = raised(tip, previous?.maxPriorityFeePerGas)
  // Six full blocks double the base fee.
  const maxFeePerGas = raised(2n * BigInt(baseFeePerGas) + maxPriorityFeePerGas, previous?.maxFeePerGas)
  return { type: 'eip1559' as const, maxFeePerGas, maxPriorityFeePerGas }
}
