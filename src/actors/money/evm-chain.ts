import type { Hex } from 'viem'
import type {
  BatchFacts,
  Inclusion,
  LookResult,
  SendResult,
  SignResult,
  Unavailable,
} from '../../machines/charts/payout-batch.ts'
import { idHash, toHex } from '../../protocol/receipts/merkle.ts'
import { settledEventTopic } from '../../protocol/receipts/settlement-contract.ts'
import { secondMs } from '../../time.ts'
import {
  feesOf,
  fetchRpc,
  inclusionOf,
  isTransportFailure,
  loadViem,
  type RpcBlock,
  type RpcLog,
  type RpcReceipt,
  type RpcTransaction,
  rpcCode,
} from './evm-rpc.ts'

/**
 * The settlement contract on its blockchain. Expected failures are results, and none of them contains text of an RPC.
 */
export interface EvmChain {
  /** null if the RPC answers, serves the right blockchain and finds code at the address. Otherwise the reason. */
  fault(): Promise<string | null>
  /** `openNonces` are those of our other open transactions. A batch that has a nonce keeps it and raises its fee. */
  sign(batch: BatchFacts, openNonces: readonly number[]): Promise<SignResult>
  send(batch: BatchFacts): Promise<SendResult>
  look(batch: BatchFacts, openNonces: readonly number[]): Promise<LookResult>
}

export interface EvmChainOptions {
  readonly rpcUrl: string
  readonly chainId: number
  /** `0x` and 64 hex digits. */
  readonly key: string
  readonly contract: string
  /** Only for blockchains without the tag `finalized`. */
  readonly confirmations: number
}

const rpcTimeoutMs = 10 * secondMs
const gasMarginPercent = 120n
/** RPC providers refuse longer ranges. */
const logBlocksMax = 9_999n

const contractAbi = [
  'function settleBatch(bytes32 batchId, bytes32 root, uint256 total, uint256 count) payable',
  'function root(bytes32 batchId) view returns (bytes32)',
] as const

const unavailable = (error: unknown): Unavailable => ({ kind: 'unavailable', code: rpcCode(error) })
const inAnotherContract: Unavailable = { kind: 'unavailable', code: 'another_contract' }
const batchHash = ({ batchId }: BatchFacts) => toHex(idHash(batchId)) as Hex
const noRoot = `0x${'00'.repeat(32)}`

export async function createEvmChain(options: EvmChainOptions): Promise<EvmChain> {
  const { viem, accounts } = await loadViem()
  const account = accounts.privateKeyToAccount(options.key as Hex)
  const client = viem.createPublicClient({
    transport: viem.http(options.rpcUrl, { timeout: rpcTimeoutMs, retryCount: 0, fetchFn: fetchRpc }),
  })
  return new ViemChain(options, viem, account, client)
}

type Viem = typeof import('viem')
type Account = ReturnType<typeof import('viem/accounts').privateKeyToAccount>

class ViemChain implements EvmChain {
  private readonly abi
  private readonly contract: Hex

  constructor(
    private readonly options: EvmChainOptions,
    private readonly viem: Viem,
    private readonly account: Account,
    private readonly client: import('viem').PublicClient,
  ) {
    this.abi = viem.parseAbi(contractAbi)
    // Lower case, because viem takes mixed case for a checksum.
    this.contract = options.contract.toLowerCase() as Hex
  }

  async fault(): Promise<string | null> {
    try {
      if ((await this.client.getChainId()) !== this.options.chainId) return 'wrong_chain'
      const code = await this.client.getCode({ address: this.contract })
      return code === undefined || code === '0x' ? 'no_contract' : null
    } catch (error) {
      return rpcCode(error)
    }
  }

  async sign(batch: BatchFacts, openNonces: readonly number[]): Promise<SignResult> {
    const result = await this.signedOrSettled(batch, openNonces)
    return result.kind === 'reverted' && this.isOfAnother(batch) ? inAnotherContract : result
  }

  private async signedOrSettled(batch: BatchFacts, openNonces: readonly number[]): Promise<SignResult> {
    try {
      const settled = await this.settledRoot(batch)
      if (settled === batch.merkleRoot) {
        const found = await this.settlement(batch)
        return found === null ? { kind: 'unavailable', code: 'event_not_found' } : { kind: 'settled', ...found }
      }
      if (settled !== noRoot) return { kind: 'reverted', code: 'another_root' }
      const nonce = await this.nonceFor(batch, openNonces)
      const raw = await this.signed(batch, nonce)
      return { kind: 'signed', nonce, transaction: { raw, hash: this.viem.keccak256(raw) } }
    } catch (error) {
      const code = rpcCode(error)
      return code === 'would_revert' ? { kind: 'reverted', code } : { kind: 'unavailable', code }
    }
  }

  async send({ transactions }: BatchFacts): Promise<SendResult> {
    const newest = transactions.at(-1)
    if (newest === undefined) return { kind: 'unsigned' }
    try {
      await this.rpc('eth_sendRawTransaction', [newest.raw])
      return { kind: 'sent' }
    } catch (error) {
      const code = rpcCode(error)
      if (code === 'nonce_too_low') return { kind: 'spent' }
      if (code === 'underpriced') return { kind: 'underpriced' }
      if (code === 'already_known') return { kind: 'sent' }
      // Either one of our earlier transactions has the nonce, or a stranger's transaction that must be mined first.
      if (code === 'replacement_underpriced' && transactions.length > 1) return { kind: 'sent' }
      return { kind: 'unavailable', code }
    }
  }

  async look(batch: BatchFacts, openNonces: readonly number[]): Promise<LookResult> {
    const result = await this.seen(batch, openNonces)
    // It would be signed anew, for the contract of the settings.
    return ['reverted', 'dropped'].includes(result.kind) && this.isOfAnother(batch) ? inAnotherContract : result
  }

  private isOfAnother(batch: BatchFacts): boolean {
    return this.contractOf(batch) !== this.contract
  }

  /** A batch stays with the contract that its transactions call, whichever one the settings name since. Lower case. */
  private contractOf({ transactions }: BatchFacts, hash = transactions[0]?.hash): Hex {
    const one = transactions.find((transaction) => transaction.hash === hash)
    const to = one === undefined ? null : this.viem.parseTransaction(one.raw as Hex).to
    return (to?.toLowerCase() as Hex | undefined) ?? this.contract
  }

  private async seen(batch: BatchFacts, openNonces: readonly number[]): Promise<LookResult> {
    try {
      const receipt = await this.receiptOf(batch)
      if (receipt !== null) return await this.included(batch, receipt)
      // The batch may already be settled, by an earlier transaction or before a restore of the gateway.
      const earlier = await this.settlement(batch)
      if (earlier !== null) return await this.withFinality(batch, earlier)
      return batch.settlementBlockHash === null ? await this.notIncluded(batch, openNonces) : { kind: 'reorged' }
    } catch (error) {
      return unavailable(error)
    }
  }

  /** The receipt of whichever of its transactions was included. */
  private async receiptOf({ transactions }: BatchFacts): Promise<RpcReceipt | null> {
    for (const { hash } of transactions.toReversed()) {
      const receipt = await this.rpc<RpcReceipt | null>('eth_getTransactionReceipt', [hash])
      if (receipt !== null) return receipt
    }
    return null
  }

  private async included(batch: BatchFacts, receipt: RpcReceipt): Promise<LookResult> {
    if (receipt.status !== '0x1') {
      const earlier = await this.settlement(batch)
      return earlier === null ? { kind: 'reverted', code: 'reverted' } : this.withFinality(batch, earlier)
    }
    const settled = receipt.logs.some(
      ({ address, topics }) =>
        address.toLowerCase() === this.contractOf(batch, receipt.transactionHash) &&
        topics[0] === settledEventTopic &&
        topics[1] === batchHash(batch) &&
        topics[2] === batch.merkleRoot,
    )
    if (!settled) return { kind: 'reverted', code: 'event_missing' }
    return this.withFinality(batch, inclusionOf(receipt))
  }

  /** Final means at or below the finalized block while that height still has the same block (§14). */
  private async withFinality(batch: BatchFacts, inclusion: Inclusion): Promise<LookResult> {
    // A transaction that was in another block a moment ago has moved, so the next look starts there.
    if (batch.settlementBlockHash !== null && batch.settlementBlockHash !== inclusion.blockHash) {
      return { kind: 'included', ...inclusion }
    }
    if (BigInt(inclusion.blockNumber) > (await this.finalizedBlock())) return { kind: 'included', ...inclusion }
    const number = this.viem.numberToHex(BigInt(inclusion.blockNumber))
    const block = await this.rpc<RpcBlock | null>('eth_getBlockByNumber', [number, false])
    return block?.hash === inclusion.blockHash ? { kind: 'final', ...inclusion } : { kind: 'reorged' }
  }

  private async notIncluded(batch: BatchFacts, openNonces: readonly number[]): Promise<LookResult> {
    const nonce = batch.txNonce ?? 0
    const next = await this.nextNonce()
    if (next > nonce) {
      // The batch itself may have used the nonce, if it was included after the look above.
      const receipt = await this.receiptOf(batch)
      return receipt === null ? { kind: 'dropped', code: 'nonce_used' } : this.included(batch, receipt)
    }
    const ours = openNonces.filter((other) => other >= next && other < nonce).length
    if (next + ours < nonce) return { kind: 'dropped', code: 'nonce_gap' }
    const newest = batch.transactions.at(-1)
    const known = await this.rpc<RpcTransaction | null>('eth_getTransactionByHash', [newest?.hash ?? noRoot])
    if (known === null) return { kind: 'unknown' }
    const fee = known.maxFeePerGas ?? known.gasPrice
    const { baseFeePerGas } = await this.rpc<RpcBlock>('eth_getBlockByNumber', ['latest', false])
    const cheap = fee !== undefined && baseFeePerGas !== undefined && BigInt(fee) < BigInt(baseFeePerGas)
    return { kind: cheap ? 'underpriced' : 'pending' }
  }

  private async finalizedBlock(): Promise<bigint> {
    const block = await this.rpc<RpcBlock | null>('eth_getBlockByNumber', ['finalized', false]).catch((error) => {
      if (rpcCode(error) === 'rpc_timeout' || isTransportFailure(error)) throw error
      return null
    })
    if (block !== null) return BigInt(block.number)
    return (await this.client.getBlockNumber({ cacheTime: 0 })) - BigInt(this.options.confirmations)
  }

  private async settledRoot(batch: BatchFacts): Promise<string> {
    return this.client.readContract({
      address: this.contractOf(batch),
      abi: this.abi,
      functionName: 'root',
      args: [batchHash(batch)],
    })
  }

  /** The block in which the contract took this batch with this root, or null. */
  private async settlement(batch: BatchFacts): Promise<Inclusion | null> {
    if ((await this.settledRoot(batch)) !== batch.merkleRoot) return null
    const topics = [settledEventTopic, batchHash(batch), batch.merkleRoot]
    const logs = (fromBlock: string) =>
      this.rpc<readonly RpcLog[]>('eth_getLogs', [
        { address: this.contractOf(batch), topics, fromBlock, toBlock: 'latest' },
      ])
    const found = await logs('earliest').catch(async () => {
      const latest = await this.client.getBlockNumber({ cacheTime: 0 })
      return logs(this.viem.numberToHex(latest > logBlocksMax ? latest - logBlocksMax : 0n))
    })
    const [log] = found
    return log === undefined ? null : inclusionOf(log)
  }

  private nextNonce(): Promise<number> {
    return this.client.getTransactionCount({ address: this.account.address, blockTag: 'latest' })
  }

  private async nonceFor(batch: BatchFacts, openNonces: readonly number[]): Promise<number> {
    if (batch.txNonce !== null && batch.transactions.length > 0) return batch.txNonce
    let nonce = await this.nextNonce()
    while (openNonces.includes(nonce)) nonce++
    return nonce
  }

  private async signed(batch: BatchFacts, nonce: number): Promise<Hex> {
    const { totalAmountWei: value } = batch
    const data = this.viem.encodeFunctionData({
      abi: this.abi,
      functionName: 'settleBatch',
      args: [batchHash(batch), batch.merkleRoot as Hex, value, BigInt(batch.payoutCount)],
    })
    const to = this.contractOf(batch)
    const call = { from: this.account.address, to, data, value: this.viem.numberToHex(value) }
    const estimate = BigInt(await this.rpc<Hex>('eth_estimateGas', [call]))
    const gas = (estimate * gasMarginPercent) / 100n
    const fees = await feesOf(batch, this.viem, (method, params) => this.rpc(method, params))
    return this.account.signTransaction({ chainId: this.options.chainId, nonce, to, data, value, gas, ...fees })
  }

  private rpc<T>(method: string, params: readonly unknown[]): Promise<T> {
    return this.client.request({ method, params } as never) as Promise<T>
  }
}
