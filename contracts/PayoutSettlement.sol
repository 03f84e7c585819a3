// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";

/// Payouts of nodes, a merkle root per batch. The operator settles a batch with its money; each node claims its leaf once.
/// The operator chooses the root, which may hold leaves of its own or leaves that exceed the money, and can take nothing else
/// back: what nobody claims stays here for ever. PayoutSettlementV2 says more.
///
/// Leaf: keccak256(keccak256(abi.encode(bytes32 payoutId, address payee, uint256 amount))), in a tree of OpenZeppelin's
/// standard. Ids are the keccak-256 of the texts the gateway uses.
contract PayoutSettlement {
    address public immutable operator;

    /// Zero: not settled.
    mapping(bytes32 batchId => bytes32) public root;
    /// Left of what the batch was settled with: a wrong root can never touch the money of another batch.
    mapping(bytes32 batchId => uint256) public remaining;
    mapping(bytes32 batchId => mapping(bytes32 payoutId => bool)) public claimed;

    event PayoutBatchSettled(bytes32 indexed batchId, bytes32 indexed root, uint256 total, uint256 count);
    event PayoutClaimed(bytes32 indexed batchId, bytes32 indexed payoutId, address indexed payee, uint256 amount);

    error NotOperator();
    error AlreadySettled();
    error EmptyRoot();
    error WrongValue();
    error AlreadyClaimed();
    error InvalidProof();
    error TransferFailed();

    constructor(address operator_) {
        operator = operator_;
    }

    /// Once for each batch, so that whatever is sent twice is paid once.
    function settleBatch(bytes32 batchId, bytes32 root_, uint256 total, uint256 count) external payable {
        if (msg.sender != operator) revert NotOperator();
        if (root[batchId] != bytes32(0)) revert AlreadySettled();
        if (root_ == bytes32(0)) revert EmptyRoot();
        if (msg.value != total) revert WrongValue();
        root[batchId] = root_;
        remaining[batchId] = total;
        emit PayoutBatchSettled(batchId, root_, total, count);
    }

    /// Anybody may send it: the money goes to the payee of the leaf.
    function claim(bytes32 batchId, bytes32 payoutId, address payable payee, uint256 amount, bytes32[] calldata proof)
        external
    {
        if (claimed[batchId][payoutId]) revert AlreadyClaimed();
        bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(payoutId, payee, amount))));
        bytes32 settled = root[batchId];
        if (settled == bytes32(0) || !MerkleProof.verifyCalldata(proof, settled, leaf)) revert InvalidProof();
        claimed[batchId][payoutId] = true;
        remaining[batchId] -= amount;
        emit PayoutClaimed(batchId, payoutId, payee, amount);
        (bool sent,) = payee.call{value: amount}("");
        if (!sent) revert TransferFailed();
    }
}
