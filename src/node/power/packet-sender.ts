import { magicPacket, type PacketTarget, sendMagicPacket } from '../../host/magic-packet.ts'
import { secondMs } from '../../time.ts'

/** Packets for one computer may follow each other this closely, ms: a gateway sends one each 2 s. */
const gapMs = secondMs
/** Computers that are remembered; then the oldest is forgotten. */
const rememberedMax = 64

/** Sends magic packets into the networks of this computer, as often as a gateway needs and no more. */
export class PacketSender {
  /** When the last one for each address went out, `performance.now()`. */
  private readonly sentMs = new Map<string, number>()

  constructor(private readonly targets: () => readonly PacketTarget[]) {}

  /** False: one has just gone out. Rejects where no network takes it. */
  async send(mac: string, secureOn: string | null): Promise<boolean> {
    const nowMs = performance.now()
    if (nowMs - (this.sentMs.get(mac) ?? Number.NEGATIVE_INFINITY) < gapMs) return false
    this.sentMs.delete(mac)
    this.sentMs.set(mac, nowMs)
    const [oldest] = this.sentMs.keys()
    if (this.sentMs.size > rememberedMax && oldest !== undefined) this.sentMs.delete(oldest)
    await sendMagicPacket(magicPacket(mac, secureOn), this.targets())
    return true
  }
}
