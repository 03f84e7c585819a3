import { Type } from '@sinclair/typebox'
import { NodeAlarm } from '../nodes/alarms.ts'
import { Hardware } from '../nodes/hardware.ts'
import { nullable } from '../shapes.ts'

/** Members of a node by its own word. Absent: of a gateway of a version before. */
export const nodeSays = {
  alarms: Type.Optional(
    Type.Array(NodeAlarm, { description: 'What the node has found wrong with this gateway, by its own word' }),
  ),
  hardware: Type.Optional(nullable(Hardware)),
}
