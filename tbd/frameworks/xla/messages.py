"""The Protocol Buffers messages of XLA that are read here, with the fields that are.

Fields and numbers are those of openxla/xla: xla/tsl/profiler/protobuf/xplane.proto, xla/service/hlo.proto and
xla/xla_data.proto. Neither framework's package has classes for all of them.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "tbd.xla"
# {message: {field: (number, type)}}; [type] is repeated, a map is what it is on the wire: repeated pairs
MESSAGES = {
    "XSpace": {"planes": (1, ["XPlane"])},
    "XPlane": {
        "name": (2, "string"),
        "lines": (3, ["XLine"]),
        "event_metadata": (4, ["EventMetadataPair"]),
        "stat_metadata": (5, ["StatMetadataPair"]),
    },
    "EventMetadataPair": {"key": (1, "int64"), "value": (2, "XEventMetadata")},
    "StatMetadataPair": {"key": (1, "int64"), "value": (2, "XStatMetadata")},
    "XEventMetadata": {"name": (2, "string"), "stats": (5, ["XStat"])},
    "XStatMetadata": {"name": (2, "string")},
    "XLine": {
        "id": (1, "int64"),
        "name": (2, "string"),
        "display_name": (11, "string"),
        "timestamp_ns": (3, "int64"),
        "events": (4, ["XEvent"]),
    },
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64"),
        "duration_ps": (3, "int64"),
        "stats": (4, ["XStat"]),
    },
    "XStat": {
        "metadata_id": (1, "int64"),
        "double_value": (2, "double"),
        "uint64_value": (3, "uint64"),
        "int64_value": (4, "int64"),
        "str_value": (5, "string"),
        "bytes_value": (6, "bytes"),
        "ref_value": (7, "uint64"),
    },
    "HloProto": {"hlo_module": (1, "HloModule"), "buffer_assignment": (3, "BufferAssignment")},
    "HloModule": {
        "name": (1, "string"),
        "entry_computation_id": (6, "int64"),
        "computations": (3, ["Computation"]),
        "schedule": (7, "Schedule"),
    },
    "Schedule": {"sequences": (1, ["SequencePair"])},
    "SequencePair": {"key": (1, "int64"), "value": (2, "Sequence")},
    "Sequence": {"instruction_ids": (1, ["int64"])},
    "Computation": {"instructions": (2, ["Instruction"]), "id": (5, "int64"), "root_id": (6, "int64")},
    "Instruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "metadata": (7, "OpMetadata"),
        "parameter_number": (9, "int64"),
        "tuple_index": (13, "int64"),
        "id": (35, "int64"),
        "operand_ids": (36, ["int64"]),
        "called_computation_ids": (38, ["int64"]),
    },
    "OpMetadata": {"op_name": (2, "string")},
    "BufferAssignment": {"logical_buffers": (1, ["LogicalBuffer"]), "buffer_allocations": (3, ["BufferAllocation"])},
    "LogicalBuffer": {"id": (1, "int64"), "size": (2, "int64"), "defined_at": (3, "Location")},
    "Location": {"instruction_id": (4, "int64"), "shape_index": (3, ["int64"])},
    "BufferAllocation": {
        "index": (1, "int64"),
        "size": (2, "int64"),
        "is_thread_local": (3, "bool"),
        "is_entry_computation_parameter": (5, "bool"),
        "parameter_number": (6, "int64"),
        "maybe_live_out": (7, "bool"),
        "assigned": (9, ["Assigned"]),
        "is_constant": (12, "bool"),
    },
    "Assigned": {"logical_buffer_id": (1, "int64"), "offset": (2, "int64"), "size": (3, "int64")},
}


def classes():
    """{message: its class}."""
    file = descriptor_pb2.FileDescriptorProto(name="tbd/xla.proto", package=PACKAGE, syntax="proto2")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = described.field.add(name=name, number=number, label="LABEL_OPTIONAL")
            if isinstance(kind, list):
                (kind,) = kind
                field.label = field.LABEL_REPEATED
            if kind in MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                field.type = getattr(field, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{message}"))
        for message in MESSAGES
    }


CLASSES = classes()
XSpace, HloProto = CLASSES["XSpace"], CLASSES["HloProto"]
